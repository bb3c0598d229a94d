"""The server under test: one that is started for the soak, or one that runs; and its gauges."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tools.client.http_client import HttpClient

ROOT = Path(__file__).resolve().parents[3]
READY_TIMEOUT_S = 120.0
IDLE_TIMEOUT_S = 30.0
GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
"""They are 0 when no request is left."""


class ServerFailed(Exception):
    """The server did not become ready."""


@contextmanager
def started_server(
    models: Path, workers: int, log: Path, more: Mapping[str, str]
) -> Iterator[tuple[str, int]]:
    """Start a server with `more` settings; its URL and its master's process id.  Raises ServerFailed."""
    port = _free_port()
    settings = {"BRAID_PORT": str(port), "BRAID_MODELS": str(models), "BRAID_WORKERS": str(workers)}
    command = [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "server" / "gunicorn_conf.py")]
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            env=os.environ | settings | dict(more),
            stdout=file,
            stderr=file,
            cwd=ROOT,
            start_new_session=True,
        )
    try:
        _wait_until_ready(f"http://127.0.0.1:{port}", process, log)
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        process.wait()


def gauges_left(url: str) -> dict[str, float]:
    """What is left in use when the last request has ended; waits a little for clients that left."""
    deadline = time.monotonic() + IDLE_TIMEOUT_S
    while any((left := _gauges(url)).values()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


def _gauges(url: str) -> dict[str, float]:
    with HttpClient(url, IDLE_TIMEOUT_S).reply("GET", "/metrics") as reply:
        text = reply.read().decode()
    found: dict[str, float] = dict.fromkeys(GAUGES, 0.0)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in found:
                found[sample.name] += sample.value
    return found


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    client = HttpClient(url, timeout_s=5)
    while time.monotonic() < deadline and process.poll() is None:
        if client.answers("/v2/health/ready"):
            return
        time.sleep(0.2)
    raise ServerFailed(log.read_text()[-3000:])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
