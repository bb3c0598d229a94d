"""A real server, started as people start it, and what tests ask of it.

Knows processes and HTTP; knows nothing of what is inside.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

ROOT = Path(__file__).resolve().parents[2]
NO_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=0)


class ServerProcess:
    """`gunicorn -c server/gunicorn_conf.py` in a folder of its own; stopped, or killed, when left.

    `env` sets settings: `ServerProcess(models, GRACE_S="4")` is BRAID_GRACE_S=4.
    """

    def __init__(self, models_dir: Path, **env: str) -> None:
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.num_workers = int(env.get("WORKERS", "2"))
        settings = {"PORT": str(self.port), "MODELS": str(models_dir), **env}
        self._env = {**os.environ, **{f"BRAID_{name}": value for name, value in settings.items()}}
        self._log_path = models_dir.parent / f"server-{self.port}.log"

    def __enter__(self) -> ServerProcess:
        command = [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "server" / "gunicorn_conf.py")]
        with self._log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=self._env, cwd=self._log_path.parent
            )
        return self

    def __exit__(self, *_: object) -> None:
        host, workers = self.kids()
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(15)
        finally:
            for process in [self.process, *workers, *([host] if host else [])]:
                _kill(process)
            self.process.wait()

    def kids(self) -> tuple[psutil.Process | None, list[psutil.Process]]:
        """The engine host, if there is one, and the workers."""
        try:
            children = psutil.Process(self.process.pid).children()
        except psutil.NoSuchProcess:
            return None, []
        hosts = [child for child in children if "pipelines.host" in _command(child)]
        workers = [child for child in children if "gunicorn" in _command(child)]
        return (hosts[0] if hosts else None), workers

    def host(self) -> psutil.Process:
        host, _ = self.kids()
        assert host is not None, self.log()
        return host

    def log(self) -> str:
        return self._log_path.read_text()

    def ready(self, timeout_s: float = 15, model: str = "fake") -> float:
        """Wait until every worker answers a chat request; gives back the seconds it took."""
        start_s = time.monotonic()
        in_a_row = 0
        while in_a_row < 3 * self.num_workers:
            assert time.monotonic() - start_s < timeout_s, self.log()
            assert self.process.poll() is None, self.log()
            in_a_row = in_a_row + 1 if self._answers(model) else 0
        return time.monotonic() - start_s

    def wait_for(self, condition: Callable[[], object], timeout_s: float = 8) -> float:
        """Wait for a condition; gives back the seconds it took."""
        start_s = time.monotonic()
        while not condition():
            assert time.monotonic() - start_s < timeout_s, self.log()
            time.sleep(0.02)
        return time.monotonic() - start_s

    def metric(self, name: str, model: str = "fake") -> float:
        """One sample of /metrics; 0 when it was never written."""
        text = httpx.get(f"{self.url}/metrics", verify=False).text
        start = f'{name}{{model_name="{model}"}} '
        return next((float(line[len(start) :]) for line in text.splitlines() if line.startswith(start)), 0.0)

    def _answers(self, model: str) -> bool:
        try:
            url = f"{self.url}/v1/chat/completions"
            return httpx.post(url, json=chat(1, model=model), timeout=5, verify=False).status_code == 200
        except httpx.TransportError:
            time.sleep(0.05)
            return False


def chat(max_tokens: int, stream: bool = False, model: str = "fake") -> dict[str, object]:
    """The body of a chat request that runs for `max_tokens` tokens."""
    messages = [{"role": "user", "content": "hi"}]
    body = {"model": model, "messages": messages, "max_tokens": max_tokens, "ignore_eos": True}
    return {**body, "stream": stream}


@dataclass
class Reply:
    """What one client saw.  `end_s` is when it saw the last of it (time.monotonic)."""

    status: int = 0
    done: bool = False
    error: str = ""
    broken: str = ""
    num_chunks: int = 0
    retry_after: str | None = None
    end_s: float = 0.0


async def ask(url: str, max_tokens: int, stream: bool = True) -> Reply:
    """One chat request, read to its end however it ends."""
    reply = Reply()
    try:
        async with (
            httpx.AsyncClient(limits=NO_LIMITS, timeout=30, verify=False) as client,
            client.stream("POST", f"{url}/v1/chat/completions", json=chat(max_tokens, stream)) as response,
        ):
            reply.status = response.status_code
            reply.retry_after = response.headers.get("retry-after")
            async for line in response.aiter_lines():
                _read_line(reply, line)
    except httpx.TransportError as error:
        reply.broken = type(error).__name__
    reply.end_s = time.monotonic()
    return reply


def _read_line(reply: Reply, line: str) -> None:
    if line == "data: [DONE]":
        reply.done = True
    elif '"error"' in line:
        reply.error = line
    elif line.startswith("data: "):
        reply.num_chunks += 1


def start_asking(url: str, max_tokens: int, count: int, stream: bool = True) -> list[asyncio.Task[Reply]]:
    return [asyncio.create_task(ask(url, max_tokens, stream)) for _ in range(count)]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _kill(process: psutil.Process | subprocess.Popen[bytes]) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
