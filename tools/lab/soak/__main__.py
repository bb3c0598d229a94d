"""`python -m tools.lab.soak`: sends many mixed requests to a server, and measures what they leave behind.

Starts a server of the shipped models, or takes the one at --url.  Ends with figures: latencies and errors by
kind, the slope of each process's memory, descriptors, threads, sequences and cache blocks that are still in
use.  Exits with 1 when a bound is broken.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
import urllib.parse
from contextlib import nullcontext, suppress
from dataclasses import asdict
from pathlib import Path

import click
import psutil
from rich.console import Console

from tools.client.connection import Connection
from tools.lab.soak.attacks import QUIET_PART, SETTINGS, SOAK_KEY, Attacks, ended
from tools.lab.soak.figures import Bounds, broken_bounds, broken_by_attacks, refused_to_neighbour
from tools.lab.soak.processes import Sample, named_processes, usage_of
from tools.lab.soak.report import answers_table, kinds_table, processes_table, progress_line
from tools.lab.soak.sending import Outcome, send_all
from tools.lab.soak.server import ROOT, ServerFailed, gauges_left, started_server

PERIOD_S = 5.0
PROGRESS_S = 30.0
SETTLE_S = 3.0
WIDTH = 110


@click.command()
@click.option("--requests", "count", default=100_000, show_default=True)
@click.option("--connections", default=32, show_default=True, help="Requests in flight.")
@click.option("--seed", default=0, show_default=True, help="Chooses the requests.")
@click.option(
    "--models", default=ROOT / "model_repo", type=click.Path(path_type=Path), help="Its repository."
)
@click.option("--workers", default=2, show_default=True, help="Its worker processes.")
@click.option("--url", help="A server that runs already, with the shipped models.")
@click.option("--pid", type=int, help="With --url: the process id of its master, which its log begins with.")
@click.option("--key", envvar="BRAID_API_KEY", help="API key; BRAID_API_KEY in the environment.")
@click.option(
    "--attacks", "most", default=0, help="Also attack the server, with this many of each kind at most."
)
@click.option("--slope-kb", default=Bounds.slope_kb, show_default=True, help="Allowed per 1,000 requests.")
@click.option("--worst-s", default=Bounds.worst_s, show_default=True, help="Allowed for one reply.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Also write all samples to this file.")
def main(
    count: int,
    connections: int,
    seed: int,
    models: Path,
    workers: int,
    url: str | None,
    pid: int | None,
    key: str | None,
    most: int,
    slope_kb: float,
    worst_s: float,
    file: Path | None,
) -> None:
    """Send mixed requests to a server, and measure what they leave behind."""
    if (url is None) != (pid is None):
        raise click.UsageError("--url needs --pid, and --pid needs --url")
    if url is not None and most:
        raise click.UsageError("--attacks needs a server of its own")
    console = Console(width=max(WIDTH, Console().width))
    log = Path(tempfile.mkdtemp(prefix="braid-soak-")) / "server.log"
    key = SOAK_KEY if most else key
    settings = SETTINGS if most else {}
    starting = started_server(models, workers, log, settings)
    server = starting if url is None or pid is None else nullcontext((url, pid))
    try:
        with server as (running_url, running_pid):
            soak = Soak(running_url, running_pid, key, console)
            attacks = Attacks(soak.address, most, seed) if most else None
            with suppress(KeyboardInterrupt):  # the figures so far
                asyncio.run(soak.run(connections, seed, count, attacks))
            left = gauges_left(running_url)
            time.sleep(SETTLE_S)  # closed connections are collected
            soak.sample()
    except (ServerFailed, psutil.NoSuchProcess) as error:
        raise click.ClickException(f"{error}; the server's log: {log}") from error
    bounds = Bounds(slope_kb=slope_kb, worst_s=worst_s)
    broken = broken_bounds(soak.outcomes, soak.samples, left, bounds)
    rate = len(soak.outcomes) / soak.seconds
    console.print(
        f"{len(soak.outcomes):,} requests in {soak.seconds:.0f} s, {rate:.1f} a second, seed {seed}"
    )
    console.print(kinds_table(soak.outcomes))
    console.print(processes_table(soak.samples))
    console.print(", ".join(f"{name} {value:g}" for name, value in left.items()) + " at the end")
    if attacks is not None:
        console.print(answers_table(attacks.answers))
        console.print(kinds_table(attacks.neighbour.outcomes, "small requests of a neighbour"))
        console.print(f"Its part of the pools: {dict(attacks.neighbour.stored)}")
        broken += broken_by_attacks(attacks.answers, attacks.neighbour.outcomes)
        broken += refused_to_neighbour(attacks.neighbour.stored)
    if file is not None:
        samples = [sample._asdict() for sample in soak.samples]
        file.write_text(json.dumps({"bounds": asdict(bounds), "samples": samples}, indent=1) + "\n")
    for sentence in broken:
        console.print(sentence, style="red", markup=False, soft_wrap=True)
    if broken:
        console.print(f"the server's log: {log}", markup=False, soft_wrap=True)
    sys.exit(1 if broken else 0)


class Soak:
    """One run: sends requests, and looks at the processes meanwhile."""

    def __init__(self, url: str, pid: int, key: str | None, console: Console) -> None:
        address = urllib.parse.urlsplit(url)
        self.address, self._key = (address.hostname or "127.0.0.1", address.port or 80), key
        self._processes = named_processes(pid)
        self._console = console
        self._begin = time.monotonic()
        self.seconds = 0.0
        self.outcomes: list[Outcome] = []
        self.samples: list[Sample] = []

    async def run(self, num_connections: int, seed: int, count: int, attacks: Attacks | None) -> None:
        connections = [Connection(*self.address, self._key) for _ in range(num_connections)]
        self.sample()
        beside = [asyncio.create_task(self._watch(count))]
        if attacks is not None:
            quiet = count * QUIET_PART
            beside.append(asyncio.create_task(attacks.run(lambda: len(self.outcomes) >= quiet)))
        try:
            await send_all(connections, seed, count, self.outcomes.append)
        finally:
            self.seconds = time.monotonic() - self._begin
            for task in beside:
                await ended(task)
            if attacks is not None:
                await attacks.neighbour.use_pools()
            for connection in connections:
                connection.close()

    def sample(self) -> None:
        seconds = time.monotonic() - self._begin
        self.samples.append(Sample(len(self.outcomes), seconds, usage_of(self._processes)))

    async def _watch(self, count: int) -> None:
        """Look at the processes every few seconds, and show how far it is now and then."""
        shown_s = 0.0
        while True:
            await asyncio.sleep(PERIOD_S)
            self.sample()
            if self.samples[-1].seconds - shown_s >= PROGRESS_S:
                shown_s = self.samples[-1].seconds
                num_errors = sum(bool(outcome.error) for outcome in self.outcomes)
                line = progress_line(len(self.outcomes), num_errors, count, self.samples[-1])
                self._console.print(line, highlight=False)
                self._console.file.flush()


if __name__ == "__main__":
    main()
