"""`python -m tools.bench`: Braid beside openvino_genai on the same export, alternating within one run.

Machines drift by half within minutes, so only figures of one run compare.  Prints a table and writes
`build/bench.json`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import click
import psutil
from rich.console import Console

from tools.bench.contenders import Child, Contender, Meter, Server
from tools.bench.load import Load, Settings, figures, random_load
from tools.bench.model import MODEL_NAME, bench_model
from tools.bench.report import Row, Taken, rows, table

BUILD = Path("build")
CONCURRENCY = (1, 8, 32)
PROMPT_TOKENS, OUTPUT_TOKENS = 128, 48
BRAID, ENGINE, PEER = "braid", "braid, engine alone", "openvino_genai"


@click.command()
@click.option("--workers", default=1, show_default=True, help="HTTP processes of Braid.")
@click.option("--step-tokens", default=512, show_default=True, help="Tokens in one step, for everyone.")
@click.option("--rounds", default=3, show_default=True, help="How often each load is repeated.")
@click.option("--engine", is_flag=True, help="Measure Braid's engine without HTTP too.")
def main(workers: int, step_tokens: int, rounds: int, engine: bool) -> None:
    """Output tokens/s, time to the first token, time between tokens, processor time and memory.

    QUICK=1 in the environment measures each load once.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the contenders are stopped too
    console = Console()
    models = bench_model(BUILD / "bench", lambda stage: console.print(f"[dim]{stage} …"))
    settings = Settings(max_step_tokens=step_tokens)
    contenders = start(models, settings, workers, engine, console)
    try:
        measured = measure(contenders, 1 if os.environ.get("QUICK") == "1" else rounds, console)
    finally:
        for contender in contenders.values():
            contender.stop()
    title = f"Qwen3-0.6B shape, int8: {PROMPT_TOKENS} prompt tokens, {OUTPUT_TOKENS} output tokens"
    facts = {**asdict(settings), "workers": workers, "cores": psutil.cpu_count()}
    console.print(table(measured, title, ", ".join(f"{name} {value}" for name, value in facts.items())))
    (BUILD / "bench.json").write_text(json.dumps({"settings": facts, "rows": measured}, indent=2) + "\n")


def start(
    models: Path, settings: Settings, workers: int, engine: bool, console: Console
) -> dict[str, Contender]:
    """Every contender with its model loaded; the peer only where it is installed."""
    model = models / MODEL_NAME / "model"
    contenders: dict[str, Contender] = {BRAID: Server(models, settings, workers)}
    if engine:
        contenders[ENGINE] = Child("engine", model, settings)
    if importlib.util.find_spec("openvino_genai"):
        contenders[PEER] = Child("genai", model, settings)
    else:
        console.print("Braid is measured alone. For its peer: pip install -e '.\\[bench]'")
    return contenders


def measure(contenders: Mapping[str, Contender], rounds: int, console: Console) -> list[Row]:
    """A row per concurrency and contender.  Within a round every contender gets its turn."""
    meters = {name: Meter(contender.process) for name, contender in contenders.items()}
    measured: list[Row] = []
    for contender in contenders.values():
        contender.run(random_load(2, 2, PROMPT_TOKENS, 4, seed=0))  # the first steps of an engine are slow
    for concurrency in CONCURRENCY:
        taken: dict[str, list[Taken]] = {name: [] for name in contenders}
        for number in range(rounds):
            seed = 100 * concurrency + number
            load = random_load(concurrency, max(concurrency, 2), PROMPT_TOKENS, OUTPUT_TOKENS, seed)
            for name, contender in contenders.items():
                taken[name].append(take(contender, load, meters[name]))
                speed = taken[name][-1].figures.tokens_per_s
                console.print(f"[dim]streams {concurrency}, round {number + 1}, {name}: {speed:.1f} tokens/s")
        measured += rows(concurrency, taken, {name: meters[name].peak_bytes for name in meters}, PEER)
    for meter in meters.values():
        meter.stop()
    return measured


def take(contender: Contender, load: Load, meter: Meter) -> Taken:
    before_s = meter.cpu_s()
    timings = contender.run(load)
    return Taken(figures(timings), (meter.cpu_s() - before_s) * 1000 / timings.output_tokens)


if __name__ == "__main__":
    main()
