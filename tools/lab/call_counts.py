"""`python -m tools.lab.call_counts OTHER`: Python's function calls in this checkout of Braid and in another.

Counts calls of a token and of a request in the engine host's main thread and in a worker's, by `cProfile`,
around a model that takes no time.  Unlike times, the counts hardly depend on what else the machine does.
"""

from __future__ import annotations

import json
import os
import pstats
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import click
import psutil

from tools.client.http_client import JSON, RequestFailed, local_client
from tools.lab.bench.base.systems import READY_TIMEOUT_S, ROOT, Served
from tools.lab.bench.ceiling.client import PROMPT, count
from tools.lab.bench.ceiling.model import NAME, write_model
from tools.lab.bench.checkouts import serve

FOLDER, MAX_SEQUENCES, REQUESTS = "PROFILES_TO", 64, 100
BEGIN, END = signal.SIGRTMIN + 5, signal.SIGRTMIN + 6
PROFILER = f"""
import cProfile, os, signal
profile, folder = cProfile.Profile(), os.environ.get({FOLDER!r})
def begin(*_):
    profile.clear()
    profile.enable()
def end(*_):
    profile.disable()
    path = os.path.join(folder, str(os.getpid()))
    profile.dump_stats(path + ".part")
    os.rename(path + ".part", path)
if folder:
    signal.signal({BEGIN!r}, begin)
    signal.signal({END!r}, end)
"""
"""The module that Python imports at each start, and that a process profiles itself with on a signal."""
Load = Callable[[int], int]
"""The port → how many tokens or requests there were."""


def streamed(endpoint: str, streams: int) -> Load:
    """Tokens of streams over an endpoint of `ceiling.client`."""
    return lambda port: count(port, endpoint, NAME, streams, 200).num_tokens


def whole(path: str, fields: Mapping[str, Any]) -> Load:
    """Requests of one token, one after another."""
    body = json.dumps(
        {"model": NAME, "max_tokens": 1, "ignore_eos": True, "temperature": 0, **fields}
    ).encode()

    def send(port: int) -> int:
        client = local_client(port)
        for _ in range(REQUESTS):
            client.send("POST", path, body, JSON)
        client.close()
        return REQUESTS

    return send


LOADS = {
    "a token, 1 stream": streamed("chat", 1),
    "a token, 16 streams": streamed("chat", 16),
    "a chat": whole("/v1/chat/completions", {"messages": [{"role": "user", "content": PROMPT}]}),
    "a completion": whole("/v1/completions", {"prompt": PROMPT}),
}


@click.command()
@click.argument("other", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(other: Path) -> None:
    """Print the calls in the checkout OTHER and in this one."""
    click.echo(f"{'calls of':24}{'':7}{'host':>9}{'worker':>9}")
    for name, checkout in (("other", other.resolve()), ("this", ROOT)):
        with served(checkout) as (server, profiles):
            for load, send in LOADS.items():
                host, worker = calls(server, profiles, send)
                click.echo(f"{load:24}{name:7}{host:9.0f}{worker:9.0f}")


@contextmanager
def served(checkout: Path) -> Iterator[tuple[Served, Path]]:
    """A server of a checkout that has loaded the model, and the folder in which profiles appear."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_model(folder / "models" / NAME, MAX_SEQUENCES, 0.0)
        (folder / "sitecustomize.py").write_text(PROFILER)
        settings = {FOLDER: temporary}
        server = serve(checkout, folder / "models", NAME, 1, folder / "log", settings, beside=temporary)
        try:
            server.wait_until_ready()
            _wait_for_model(server.port)
            yield server, folder
        finally:
            server.stop()


def _wait_for_model(port: int) -> None:
    until_s = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < until_s:
        try:
            LOADS["a completion"](port)
            return
        except RequestFailed as failed:
            if failed.status != HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            time.sleep(0.2)


def calls(server: Served, profiles: Path, load: Load) -> tuple[float, float]:
    """Function calls of a token or request in the engine host and in the worker, once all is warm."""
    load(server.port)
    children = psutil.Process(server.process.pid).children()
    children.sort(key=lambda child: "pipelines.host" not in child.cmdline())
    for child in children:
        os.kill(child.pid, BEGIN)
    number = load(server.port)
    for child in children:
        os.kill(child.pid, END)
    host, worker = (_num_calls(profiles / str(child.pid)) / number for child in children)
    return host, worker


def _num_calls(profile: Path) -> int:
    while not profile.exists():
        time.sleep(0.05)
    stats: Any = pstats.Stats(str(profile))
    profile.unlink()
    return int(stats.total_calls)


if __name__ == "__main__":
    main()
