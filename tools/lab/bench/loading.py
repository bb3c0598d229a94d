"""`python -m tools.lab.bench.loading`: how long models take to load, and what an idle server holds.

One model: a server starts with an empty cache and then again with what it stored, and the time to read the
model's bytes is measured between.  Many models (`--many N`): a repository of copies of the shipped models,
which are loaded by their first request.  Each figure is one start; repeat with `--rounds`.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import psutil

from tools.client.http_client import JSON, RequestFailed, local_client
from tools.lab.bench.base.systems import ROOT, Served
from tools.lab.bench.checkouts import serve

SHIPPED = ROOT / "model_repo"
WEIGHTS = frozenset({".bin", ".onnx", ".data", ".gguf", ".safetensors"})
IDLE_S = 8.0
"""After the load: what a server prepares while it is idle has ended."""
MB = 1e6
PATHS = {
    "demo": ("completions", {"prompt": "1 2 3 4 5 6 7 8", "max_tokens": 8, "ignore_eos": True}),
    "embed": ("embeddings", {"input": "Hello"}),
    "rerank": ("rerank", {"query": "Hello", "documents": ["Good morning"]}),
    "sentiment": ("classify", {"input": "Hello"}),
    "topics": ("classify", {"input": "Hello"}),
}
"""The last word of a model's name → a path and a small request."""


@click.command()
@click.option("--models", type=click.Path(exists=True, path_type=Path), help="A repository of one model.")
@click.option("--many", type=int, help="Serve this many copies of the shipped models instead.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--checkout", type=click.Path(exists=True, path_type=Path), default=ROOT, help="Serve with it.")
def main(models: Path | None, many: int | None, rounds: int, checkout: Path) -> None:
    """Print times in seconds and sizes in MB."""
    with tempfile.TemporaryDirectory() as scratch:
        if many:
            repository = copied(many, Path(scratch) / "models")
            for number in range(rounds):
                print_line(f"round {number + 1}", of_many(checkout, repository, Path(scratch)))
            return
        assert models is not None, "--models or --many"
        print_line("first load", of_one(checkout, models, Path(scratch)))
        for number in range(rounds):
            print_line(f"read {number + 1}", read_bytes(models))
            print_line(f"load {number + 1}", of_one(checkout, models, Path(scratch)))


def print_line(name: str, figures: dict[str, float]) -> None:
    click.echo(f"{name:12}" + "  ".join(f"{key} {value:.2f}" for key, value in figures.items()))


def copied(count: int, repository: Path) -> Path:
    """A repository of copies of the shipped models in turn."""
    shipped = sorted(path.parent for path in SHIPPED.glob("braid-*/graph.yaml"))
    for number in range(count):
        source = shipped[number % len(shipped)]
        folder = repository / f"m{number:02}-{source.name}"
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("adapters"))
        graph = re.sub(r", adapters: \{[^}]*\}", "", (folder / "graph.yaml").read_text())
        (folder / "graph.yaml").write_text(graph.replace("graph: braid-embed", "graph: m01-braid-embed"))
    return repository


def read_bytes(models: Path) -> dict[str, float]:
    """Read all weights once, piece by piece."""
    files = [file for file in models.rglob("*") if file.suffix in WEIGHTS]
    piece, begin = bytearray(1 << 20), time.perf_counter()
    for file in files:
        with file.open("rb", buffering=0) as opened:
            while opened.readinto(piece):
                pass
    seconds = time.perf_counter() - begin
    return {"s": seconds, "MB": sum(file.stat().st_size for file in files) / MB}


def of_one(checkout: Path, models: Path, scratch: Path) -> dict[str, float]:
    """A start of the server with one model: load, first answers, memory of its engine host and of all
    processes.
    """
    name = next(path.name for path in sorted(models.iterdir()) if path.is_dir())
    environment = {"BRAID_CACHE": str(scratch / "cache")}
    with served(checkout, models, name, scratch, environment) as (server, start):
        while not (card := cards(server.port)) or card[0]["status"]["value"] != "loaded":
            time.sleep(0.02)
        ready, host = time.perf_counter() - start, host_of(server)
        path, body = PATHS["demo"]
        first, *later = (timed(server.port, path, {"model": name, **body}) for _ in range(6))
        time.sleep(IDLE_S)
        return {
            "load s": load_seconds(server.port),
            "start to ready s": ready,
            "first answer s": first,
            "later s": statistics.median(later),
            "peak MB": high_water(host) / MB,
            "idle MB": host.memory_info().rss / MB,
            "whole server MB": server_bytes(server) / MB,
        }


def of_many(checkout: Path, repository: Path, scratch: Path) -> dict[str, float]:
    """A start of a server whose models are loaded by their first request."""
    environment = {"BRAID_CACHE": str(scratch / "cache"), "BRAID_LOAD_ON_REQUEST": "1"}
    with served(checkout, repository, "", scratch, environment) as (server, start):
        count = len(list(repository.iterdir()))
        while len(model_cards := cards(server.port)) < count:
            time.sleep(0.02)
        listed = time.perf_counter() - start
        states = [card["status"]["value"] for card in model_cards]
        firsts = []
        for card in model_cards:
            path, body = PATHS[card["id"].rpartition("-")[2]]
            firsts.append(timed(server.port, path, {"model": card["id"], **body}))
        return {
            "listed s": listed,
            "unloaded": states.count("unloaded"),
            "first answer of the first model s": firsts[0],
            "of all, median s": statistics.median(firsts),
            "slowest s": max(firsts),
            "host MB": host_of(server).memory_info().rss / MB,
        }


@contextlib.contextmanager
def served(
    checkout: Path, models: Path, model: str, scratch: Path, environment: dict[str, str]
) -> Iterator[tuple[Served, float]]:
    """A running server, and when it was started."""
    start = time.perf_counter()
    server = serve(checkout, models.resolve(), model, 1, scratch / "log", environment)
    try:
        yield server, start
    finally:
        server.stop()


def cards(port: int) -> list[dict[str, Any]]:
    """The models of a server; [] while it does not answer."""
    with contextlib.suppress(RequestFailed):
        listed = json.loads(get(port, "/v1/models"))["data"]
        return [card for card in listed if card.get("parent") is None]
    return []


def get(port: int, path: str) -> bytes:
    """The body of a reply.  Raises RequestFailed."""
    with local_client(port, timeout_s=10).reply("GET", path) as reply:
        return reply.read()


def timed(port: int, path: str, body: dict[str, Any]) -> float:
    """Seconds of a request."""
    client, content = local_client(port, timeout_s=120), json.dumps(body).encode()
    begin = time.perf_counter()
    with client.reply("POST", f"/v1/{path}", content, JSON) as reply:
        reply.read()
    return time.perf_counter() - begin


def load_seconds(port: int) -> float:
    """What the engine host took to load its model."""
    metrics = get(port, "/metrics").decode().splitlines()
    return next(
        float(line.split()[-1]) for line in metrics if line.startswith("braid:model_load_seconds_sum")
    )


def host_of(server: Served) -> psutil.Process:
    children = psutil.Process(server.process.pid).children()
    return next(child for child in children if "pipelines.host" in child.cmdline())


def server_bytes(server: Served) -> int:
    """What all processes of a server hold in memory, pages that several share once."""
    master = psutil.Process(server.process.pid)
    found: int = sum(each.memory_full_info().pss for each in (master, *master.children(recursive=True)))
    return found


def high_water(process: psutil.Process) -> int:
    """The most resident memory that a process had, in bytes."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
