"""`python -m tools.lab.bench.ceiling`: measures Braid's upper limit, with a model that takes no time.

First the engine in this process, then a whole server over HTTP; server and client share the cores.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import click

from tools.lab.bench.ceiling.client import PATHS
from tools.lab.bench.ceiling.engine import Decoding, Parts
from tools.lab.bench.ceiling.serving import Server

SHAPES = [(64, 128), (64, 8192), (256, 128), (256, 8192)]
"""Sequences and context."""
NUM_STEPS, NUM_FIRST_STEPS = 200, 50
PROBE_TOKENS, MAX_TOKENS = 100, 3900
ENGINE_HEAD = "sequences  context  tokens/s   of a step, µs:  plan and feed  fake model  sample  commit"
SERVER_HEAD = "workers  streams  tokens/s  tokens/event   of a token, µs:  host  workers  client"


@click.command()
@click.option("--engine/--no-engine", default=True, help="Measure the engine alone.")
@click.option("--workers", multiple=True, type=int, default=(1, 2), show_default=True)
@click.option("--streams", multiple=True, type=int, default=(1, 64, 256), show_default=True)
@click.option("--endpoint", type=click.Choice(list(PATHS)), default="chat", show_default=True)
@click.option("--step-ms", default=0.0, show_default=True, help="What a step of the model takes.")
@click.option("--seconds", default=3.0, show_default=True, help="About how long each load lasts.")
def main(
    engine: bool,
    workers: tuple[int, ...],
    streams: tuple[int, ...],
    endpoint: str,
    step_ms: float,
    seconds: float,
) -> None:
    """Print tokens/s, the cost of a step by part, and the cost of a token by process."""
    if engine:
        click.echo(ENGINE_HEAD)
        for num_seqs, context in SHAPES:
            click.echo(engine_row(num_seqs, context))
    click.echo(SERVER_HEAD)
    for num_workers in workers:
        with tempfile.TemporaryDirectory() as folder:
            server = Server(Path(folder), num_workers, step_ms / 1000)
            try:
                for number in streams:
                    click.echo(f"{num_workers:7d}  {server_row(server, endpoint, number, seconds)}")
            finally:
                server.stop()


def engine_row(num_seqs: int, context: int) -> str:
    """Medians of processor time; tokens/s are those of the median step."""
    decoding = Decoding(num_seqs, context, NUM_FIRST_STEPS + NUM_STEPS + 2)
    steps = [decoding.step() for _ in range(NUM_FIRST_STEPS + NUM_STEPS)][NUM_FIRST_STEPS:]
    per_s = num_seqs / statistics.median(sum(step) for step in steps)
    feed, model, sample, commit = (1e6 * statistics.median(part) for part in Parts(*zip(*steps, strict=True)))
    row = f"{num_seqs:9d}  {context:7d}  {per_s:8.0f}  {feed:30.0f}  {model:10.0f}"
    return f"{row}  {sample:6.0f}  {commit:6.0f}"


def server_row(server: Server, endpoint: str, streams: int, seconds: float) -> str:
    """Run a short load to find the rate, then one of about `seconds`."""
    probe, _ = server.run(endpoint, streams, PROBE_TOKENS)
    tokens = round(PROBE_TOKENS * seconds / probe.wall_s)
    counted, spent = server.run(endpoint, streams, min(MAX_TOKENS, max(PROBE_TOKENS, tokens)))
    num_tokens = counted.num_tokens
    host, workers, client = (1e6 * one / num_tokens for one in (*spent, counted.cpu_s))
    per_s, per_event = num_tokens / counted.wall_s, num_tokens / counted.num_events
    return f"{streams:7d}  {per_s:8.0f}  {per_event:12.2f}  {host:21.1f}  {workers:7.1f}  {client:6.1f}"


if __name__ == "__main__":
    main()
