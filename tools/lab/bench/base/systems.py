"""Starts systems in separate processes, sends them loads through pipes or HTTP, and stops them."""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from tools.client.http_client import local_client
from tools.lab.bench.base.client import request_over_http
from tools.lab.bench.base.load import Load, Settings, Timings

ROOT = Path(__file__).resolve().parents[4]
READY_TIMEOUT_S = 300.0
LOAD_TIMEOUT_S = 1800.0  # a prompt of 32,768 tokens takes over ten minutes on two slow cores
REASON_LENGTH = 300


class SystemFailed(Exception):
    """A system did not start or failed a load; the message has the reason."""


class System(Protocol):
    process: subprocess.Popen[str]

    def wait_until_ready(self) -> None:
        """Raises SystemFailed."""
        ...

    def run(self, load: Load) -> Timings:
        """Raises SystemFailed."""
        ...

    def stop(self) -> None: ...


class Piped:
    """A process with a JSON line protocol on its pipes; its first line reports that it is ready."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def wait_until_ready(self) -> None:
        self._answer(READY_TIMEOUT_S)

    def ask(self, line: str) -> dict[str, Any]:
        """Send one line and return the reply.  Raises SystemFailed."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise SystemFailed(_last_words(self._log)) from None
        answer = self._answer(LOAD_TIMEOUT_S)
        if "error" in answer:
            raise SystemFailed(answer["error"])
        return answer

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            raise SystemFailed(f"no answer within {timeout_s:.0f} s") from None
        if not line:
            raise SystemFailed(f"ended: {_last_words(self._log)}")
        return json.loads(line)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")


class Child(Piped):
    """An engine on pipes (`tools/lab/bench/child.py`); only the interpreter `python` imports `module`."""

    def __init__(self, python: Path, module: str, model: Path, settings: Settings, log: Path) -> None:
        encoded = json.dumps(asdict(settings))
        super().__init__([str(python), "-m", "tools.lab.bench.child", module, str(model), encoded], log)

    def run(self, load: Load) -> Timings:
        return Timings(*self.ask(load.write())["timings"])


class Served:
    """A server over HTTP, and the model that is measured; it is ready when GET /health returns 200."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        port: int,
        model: str,
        log: Path,
        folder: Path = ROOT,
    ) -> None:
        self.port, self._model, self._log = port, model, log
        with log.open("w") as out:
            self.process = subprocess.Popen(
                command, cwd=folder, env={**environment}, text=True, stdout=out, stderr=out
            )

    def wait_until_ready(self) -> None:
        begin = time.monotonic()
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() - begin > READY_TIMEOUT_S:
                self.process.kill()
                raise SystemFailed(f"did not start: {_last_words(self._log)}")
            time.sleep(0.2)

    def run(self, load: Load) -> Timings:
        try:
            return request_over_http(self.port, self._model, load, LOAD_TIMEOUT_S)
        except Exception as error:  # whatever goes wrong between two programs
            raise SystemFailed(
                f"{type(error).__name__}: {' '.join(str(error).split())}"[:REASON_LENGTH]
            ) from error

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def _answers(self) -> bool:
        return local_client(self.port, timeout_s=5).answers("/health")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def without_settings() -> dict[str, str]:
    """This process's environment variables without Braid's settings, with the hub disabled."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BRAID_")}
    return inherited | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def _last_words(log: Path) -> str:
    """The last line of the log that is not empty, and the path of the log."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()] or ["no word"]
    return f"{lines[-1].strip()} (see {log})"
