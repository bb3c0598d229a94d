"""`python -m tools.lab.bench.checkouts OTHER`: compares this checkout of Braid with another, older one.

Both serve the same models at the same time, and short loads alternate between them, since the speed of a
machine changes within minutes; the ratio of each pair of loads is what counts.  Both run on the packages of
this environment.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import click

from tools.lab.bench.base.load import Load, Request
from tools.lab.bench.base.systems import ROOT, Served, free_port, without_settings
from tools.lab.bench.meter import spent

PROMPT_TOKENS = 32
NUM_WARM_UP = 2
NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
HEAD = "           tokens/s   of a token, µs:  host  workers   (medians)"


class Measured(NamedTuple):
    """One load: output tokens per second, and processor time per token in µs."""

    per_s: float
    host_us: float
    workers_us: float


@click.command()
@click.argument("other", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--models", type=click.Path(exists=True, path_type=Path), default=ROOT / "model_repo")
@click.option("--model", default="braid-demo", show_default=True)
@click.option("--streams", default=8, show_default=True)
@click.option("--tokens", default=192, show_default=True, help="Output tokens of each stream.")
@click.option("--rounds", default=12, show_default=True, help="Pairs of loads.")
@click.option("--workers", default=1, show_default=True, help="HTTP processes of each server.")
def main(other: Path, models: Path, model: str, streams: int, tokens: int, rounds: int, workers: int) -> None:
    """Print tokens/s and processor time of the checkout OTHER and of this one, and the ratios."""
    load = Load(streams, [Request(_prompt(number), tokens) for number in range(streams)])
    with tempfile.TemporaryDirectory() as folder:
        servers: list[Served] = []
        try:
            for number, checkout in enumerate((other.resolve(), ROOT)):
                log = Path(folder) / f"{number}.log"
                servers.append(serve(checkout, models.resolve(), model, workers, log))
                servers[-1].wait_until_ready()
            pairs = alternate(servers, load, rounds)
        finally:
            for server in servers:
                server.stop()
    click.echo(HEAD)
    for name, measured in zip(("other", "this"), zip(*pairs, strict=True), strict=True):
        click.echo(row(name, measured))
    for line in ratios(pairs):
        click.echo(line)


def serve(
    checkout: Path,
    models: Path,
    model: str,
    workers: int,
    log: Path,
    settings: Mapping[str, str] = NO_SETTINGS,
    beside: str = "",
) -> Served:
    """The Braid of a checkout, on the packages of this environment, with further `settings`.

    `beside` is a folder whose modules its processes find too.
    """
    port = free_port()
    environment = without_settings() | {
        **settings,
        "PYTHONPATH": f"{checkout}{os.pathsep}{beside}" if beside else str(checkout),
        "BRAID_PORT": str(port),
        "BRAID_MODELS": str(models),
        "BRAID_WORKERS": str(workers),
    }
    command = [sys.executable, "-m", "gunicorn", "-c", str(checkout / "server" / "gunicorn_conf.py")]
    return Served(command, environment, port, model, log, checkout)


def alternate(servers: Sequence[Served], load: Load, rounds: int) -> list[tuple[Measured, Measured]]:
    """Pairs (other, this); which of them is first changes from pair to pair."""
    for server in servers:
        for _ in range(NUM_WARM_UP):
            server.run(load)
    pairs = []
    for number in range(rounds):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        measured = {index: measure(servers[index], load) for index in order}
        pairs.append((measured[0], measured[1]))
    return pairs


def measure(server: Served, load: Load) -> Measured:
    before = spent(server.process)
    timings = server.run(load)
    used = spent(server.process).since(before)
    num_tokens = load.output_tokens
    return Measured(
        num_tokens / timings.wall_s, 1e6 * used.host_s / num_tokens, 1e6 * used.workers_s / num_tokens
    )


def row(name: str, measured: Sequence[Measured]) -> str:
    per_s, host_us, workers_us = (statistics.median(column) for column in zip(*measured, strict=True))
    return f"{name:9}  {per_s:8.0f}  {host_us:20.0f}  {workers_us:7.0f}"


def ratios(pairs: Sequence[tuple[Measured, Measured]]) -> list[str]:
    """One line for each figure: the median of this / other over the pairs, and its range."""
    lines = []
    for name, index in (("tokens/s", 0), ("host", 1), ("workers", 2)):
        each = [this[index] / other[index] for other, this in pairs if other[index]]
        if each:
            lines.append(
                f"{name}: {statistics.median(each):.2f} × the other ({min(each):.2f} – {max(each):.2f})"
            )
    return lines


def _prompt(number: int) -> list[int]:
    """Token ids, other ones for each stream, so that no prefix is shared."""
    return [4 + (number * 31 + place * 7) % 200 for place in range(PROMPT_TOKENS)]


if __name__ == "__main__":
    main()
