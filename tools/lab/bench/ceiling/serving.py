"""Measures a whole server around the fake model: tokens/s at the client, and processor time by process."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.lab.bench.base.systems import ROOT, Served, free_port, without_settings
from tools.lab.bench.ceiling.client import StreamCount, count
from tools.lab.bench.ceiling.model import NAME, write_model
from tools.lab.bench.meter import Spent, spent


class Server:
    """Braid started as usual, with the fake model only."""

    def __init__(self, folder: Path, workers: int, step_s: float, max_sequences: int = 256) -> None:
        write_model(folder / "models" / NAME, max_sequences, step_s)
        self._port = free_port()
        environment = without_settings() | {
            "BRAID_PORT": str(self._port),
            "BRAID_MODELS": str(folder / "models"),
            "BRAID_WORKERS": str(workers),
        }
        command = [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "server" / "gunicorn_conf.py")]
        self._served = Served(command, environment, self._port, NAME, folder / "server.log")
        self._served.wait_until_ready()

    def run(self, endpoint: str, streams: int, tokens: int) -> tuple[StreamCount, Spent]:
        """(tokens and times at the client, processor time of the server)."""
        before = spent(self._served.process)
        counted = count(self._port, endpoint, NAME, streams, tokens)
        return counted, spent(self._served.process).since(before)

    def stop(self) -> None:
        self._served.stop()
