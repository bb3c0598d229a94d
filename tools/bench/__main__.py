"""`python -m tools.bench`: Braid beside openvino_genai on the same export, alternating within one run.

Machines drift by half within minutes, so only figures of one run compare, and the ratio is the median of
the ratios of neighbours.  Prints a table and writes `build/bench.json`.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping
from pathlib import Path

import click
import psutil
from rich.console import Console
from rich.table import Table

from tools.bench.contenders import Child, Contender, Meter, Server
from tools.bench.load import Figures, Load, Settings, figures, random_load
from tools.bench.model import MODEL_NAME, bench_model

BUILD = Path("build")
CONCURRENCY = (1, 8, 32)
PROMPT_TOKENS, OUTPUT_TOKENS = 128, 48
BRAID, ENGINE, PEER = "braid", "braid engine", "openvino_genai"

Row = dict[str, float | int | str]


@click.command()
@click.option("--workers", default=1, show_default=True, help="HTTP processes of Braid.")
@click.option("--step-tokens", default=512, show_default=True, help="Tokens in one step, for everyone.")
@click.option("--rounds", default=3, show_default=True, help="How often each load is repeated.")
@click.option("--engine/--no-engine", default=False, help="Measure Braid's engine without HTTP too.")
@click.option(
    "--quick/--full", default=lambda: os.environ.get("QUICK") == "1", help="One round (or set QUICK=1)."
)
def main(workers: int, step_tokens: int, rounds: int, engine: bool, quick: bool) -> None:
    """Measure output tokens/s, time to the first token, time between tokens, and memory."""
    console = Console()
    models = bench_model(BUILD / "bench", lambda stage: console.print(f"[dim]{stage} …"))
    settings = Settings(max_step_tokens=step_tokens)
    contenders = start(models, settings, workers, engine, console)
    try:
        rows = measure(contenders, 1 if quick else rounds, console)
    finally:
        for contender in contenders.values():
            contender.stop()
    console.print(table(rows, workers, settings))
    facts = {"settings": settings.__dict__, "workers": workers, "cores": psutil.cpu_count(), "rows": rows}
    (BUILD / "bench.json").write_text(json.dumps(facts, indent=2) + "\n")


def start(
    models: Path, settings: Settings, workers: int, engine: bool, console: Console
) -> dict[str, Contender]:
    """Every contender with its model loaded; the peer is left out, and it is said, when it is not installed."""
    model = models / MODEL_NAME / "model"
    contenders: dict[str, Contender] = {BRAID: Server(models, settings, workers)}
    if engine:
        contenders[ENGINE] = Child("engine", model, settings)
    try:
        contenders[PEER] = Child("genai", model, settings)
    except RuntimeError:
        console.print(f"{PEER} did not start; Braid is measured alone.  pip install -e '.\\[bench]'")
    return contenders


def measure(contenders: Mapping[str, Contender], rounds: int, console: Console) -> list[Row]:
    """One row per concurrency and contender: medians over the rounds."""
    meters = {name: Meter(contender.process) for name, contender in contenders.items()}
    rows: list[Row] = []
    for contender in contenders.values():
        contender.run(random_load(2, 2, PROMPT_TOKENS, 4, seed=0))  # the first steps of an engine are slow
    for concurrency in CONCURRENCY:
        taken: dict[str, list[tuple[Figures, float]]] = {name: [] for name in contenders}
        for number in range(rounds):
            for name, contender in contenders.items():
                seed = 1000 * concurrency + 10 * number + len(taken[name])
                load = random_load(concurrency, max(concurrency, 2), PROMPT_TOKENS, OUTPUT_TOKENS, seed)
                taken[name].append(take(contender, load, meters[name]))
                console.print(
                    f"[dim]{concurrency} concurrent, round {number + 1}: {name}: "
                    f"{taken[name][-1][0].tokens_per_s:.1f} tokens/s"
                )
        rows += [row(name, concurrency, taken, meters[name].peak_bytes) for name in contenders]
    for meter in meters.values():
        meter.stop()
    return rows


def take(contender: Contender, load: Load, meter: Meter) -> tuple[Figures, float]:
    """The figures of one load, and the processor milliseconds that each output token took."""
    before_s = meter.cpu_s()
    timings = contender.run(load)
    return figures(timings), (meter.cpu_s() - before_s) * 1000 / timings.output_tokens


def row(
    name: str, concurrency: int, taken: Mapping[str, list[tuple[Figures, float]]], peak_bytes: int
) -> Row:
    own = [one for one, _ in taken[name]]
    medians = {field: statistics.median(getattr(one, field) for one in own) for field in Figures._fields}
    made: Row = {"contender": name, "concurrency": concurrency, **medians}
    made["cpu_ms_per_token"] = statistics.median(cpu for _, cpu in taken[name])
    made["peak_mb"] = peak_bytes / 1e6
    if PEER in taken:
        peers = [one for one, _ in taken[PEER]]
        pairs = zip(own, peers, strict=True)
        made["ratio"] = statistics.median(one.tokens_per_s / peer.tokens_per_s for one, peer in pairs)
    return made


def table(rows: list[Row], workers: int, settings: Settings) -> Table:
    made = Table(
        title=f"Qwen3-0.6B shape, int8, {PROMPT_TOKENS} prompt and {OUTPUT_TOKENS} output tokens",
        caption=f"medians; {settings.max_step_tokens} tokens a step, {settings.kv_cache} cache, "
        f"{workers} HTTP worker(s), {psutil.cpu_count()} cores",
    )
    columns = {
        "contender": "{}",
        "concurrency": "{}",
        "tokens_per_s": "{:.1f}",
        "first_p50_ms": "{:.0f}",
        "first_p99_ms": "{:.0f}",
        "gap_p50_ms": "{:.1f}",
        "gap_p99_ms": "{:.1f}",
        "cpu_ms_per_token": "{:.1f}",
        "peak_mb": "{:.0f}",
        "ratio": "{:.2f}",
    }
    for name in columns:
        made.add_column(name.replace("_", " "), justify="left" if name == "contender" else "right")
    for one in rows:
        made.add_row(*(form.format(one[name]) if name in one else "" for name, form in columns.items()))
    return made


if __name__ == "__main__":
    main()
