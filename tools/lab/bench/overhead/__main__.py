"""`python -m tools.lab.bench.overhead OTHER`: what short requests cost in this checkout and in another.

Both serve the same small models at the same time, and short loads alternate between them; the ratio of each
pair is what counts.  Both run on the packages of this environment.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from tools.lab.bench.base.systems import READY_TIMEOUT_S, ROOT, Served, free_port
from tools.lab.bench.checkouts import serve
from tools.lab.bench.meter import spent
from tools.lab.bench.overhead import client
from tools.lab.bench.overhead.client import AsMessages, BadReply, OverHTTP, Send
from tools.lab.bench.tensors.clients import as_bytes, in_json
from tools.lab.bench.tensors.model import NAME, make_repository

MAX_BATCH = 32
WARM_UP = 50
DEMOS = {"embed": "braid-embed", "rerank": "braid-rerank", "chat": "braid-demo"}
KINDS = ("embed", "rerank", "chat", "JSON", "bytes", "gRPC")
HEAD = f"{'kind':8}{'clients':>8}{'':7}{'p50 ms':>9}{'host µs':>9}{'worker µs':>11}"


class Measured(NamedTuple):
    """The median time of a request, and the processor time of one in the engine host and in the workers."""

    p50_ms: float
    host_us: float
    workers_us: float


@click.command()
@click.argument("other", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), default=KINDS)
@click.option("--embedder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--clients", multiple=True, type=int, default=(1, 32), show_default=True)
@click.option("--requests", default=200, show_default=True, help="Of one load.")
@click.option("--rounds", default=8, show_default=True, help="Pairs of loads.")
def main(
    other: Path,
    kinds: Sequence[str],
    embedder: Path | None,
    clients: Sequence[int],
    requests: int,
    rounds: int,
) -> None:
    """Print the times of a request in the checkout OTHER and in this one, and the ratios of pairs.

    `--embedder` is the folder of a model for `embed` in the place of braid-embed.
    """
    with tempfile.TemporaryDirectory() as folder:
        models = _models(Path(folder), embedder)
        servers: list[Served] = []
        ways: list[dict[str, Send]] = []
        try:
            for number, checkout in enumerate((other.resolve(), ROOT)):
                grpc_port = free_port()
                settings = {"BRAID_GRPC_PORT": str(grpc_port)} if "gRPC" in kinds else {}
                log = Path(folder) / f"{number}.log"
                servers.append(serve(checkout, models, NAME, 1, log, settings))
                servers[-1].wait_until_ready()
                ways.append(_ways(servers[-1].port, grpc_port, embedder))
            click.echo(HEAD)
            for kind in kinds:
                for number in clients:
                    pairs = _alternate(servers, [way[kind] for way in ways], number, requests, rounds)
                    for line in _lines(kind, number, pairs):
                        click.echo(line)
        finally:
            for server in servers:
                server.stop()


def _models(folder: Path, embedder: Path | None) -> Path:
    """A repository of the models that are asked."""
    models = folder / "models"
    make_repository(models, MAX_BATCH)
    for name in DEMOS.values():
        (models / name).symlink_to(ROOT / "model_repo" / name)
    if embedder is not None:
        (models / embedder.name).symlink_to(embedder.resolve())
    return models


def _ways(port: int, grpc_port: int, embedder: Path | None) -> dict[str, Send]:
    return {
        "embed": OverHTTP(port, client.embedding(embedder.name if embedder else DEMOS["embed"])),
        "rerank": OverHTTP(port, client.ranking(DEMOS["rerank"])),
        "chat": OverHTTP(port, client.chat(DEMOS["chat"])),
        "JSON": OverHTTP(port, in_json(client.row())),
        "bytes": OverHTTP(port, as_bytes(client.row())),
        "gRPC": AsMessages(grpc_port, client.row()),
    }


def _alternate(
    servers: Sequence[Served], ways: Sequence[Send], clients: int, requests: int, rounds: int
) -> list[tuple[Measured, Measured]]:
    """Pairs (other, this); which of them is first changes from pair to pair."""
    requests_each = max(1, requests // clients)
    for way in ways:
        _wait_until_it_answers(way)
        way(clients, max(1, WARM_UP // clients))
    pairs = []
    for turn in range(rounds):
        order = (0, 1) if turn % 2 == 0 else (1, 0)
        measured: Mapping[int, Measured] = {
            index: _measure(servers[index], ways[index], clients, requests_each) for index in order
        }
        pairs.append((measured[0], measured[1]))
    return pairs


def _wait_until_it_answers(way: Send) -> None:
    """The server may still load its model.  Raises BadReply."""
    until_s = time.monotonic() + READY_TIMEOUT_S
    while True:
        try:
            way(1, 1)
            return
        except BadReply:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.2)


def _measure(server: Served, way: Send, clients: int, each: int) -> Measured:
    before = spent(server.process)
    seconds = way(clients, each)
    used, number = spent(server.process).since(before), clients * each
    return Measured(
        1e3 * statistics.median(seconds), 1e6 * used.host_s / number, 1e6 * used.workers_s / number
    )


def _lines(kind: str, clients: int, pairs: Sequence[tuple[Measured, Measured]]) -> list[str]:
    lines = []
    for name, measured in zip(("other", "this"), zip(*pairs, strict=True), strict=True):
        p50_ms, host_us, workers_us = (statistics.median(column) for column in zip(*measured, strict=True))
        lines.append(f"{kind:8}{clients:8d}  {name:5}{p50_ms:9.2f}{host_us:9.0f}{workers_us:11.0f}")
    columns = [[this[at] / other[at] for other, this in pairs if other[at]] for at in range(3)]
    ratios = [f"{statistics.median(one):.2f} ({min(one):.2f} – {max(one):.2f})" for one in columns if one]
    return [*lines, f"{'':18}ratio of pairs: " + ", ".join(ratios)]


if __name__ == "__main__":
    main()
