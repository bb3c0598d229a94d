"""`python -m tools.bench`: Braid beside its peers, alternating within one run.

Machines drift by half within minutes, so only figures of one run compare.  Prints tables and writes
`build/bench.json`.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import psutil
from rich.console import Console

from tools.bench.lineup import DEFAULT, NAMES, Lineup, start
from tools.bench.load import Settings
from tools.bench.measuring import Measuring
from tools.bench.model import NAMES as MODELS
from tools.bench.model import Model
from tools.bench.report import COLUMNS, FEATURES, Row, features, table
from tools.bench.workloads import QUICK, WORKLOADS

BUILD = Path("build")
WIDTH = 150


@click.command()
@click.option("--contender", "names", multiple=True, type=click.Choice(NAMES), default=DEFAULT)
@click.option("--workload", "chosen", multiple=True, type=click.Choice(list(WORKLOADS)), default=WORKLOADS)
@click.option("--rounds", default=3, show_default=True, help="How often each load is repeated.")
@click.option("--workers", default=1, show_default=True, help="HTTP processes of Braid.")
@click.option("--step-tokens", default=512, show_default=True, help="Tokens in one step, for everyone.")
@click.option("--model", "name", type=click.Choice(MODELS), default=MODELS[0], show_default=True)
def main(
    names: tuple[str, ...], chosen: tuple[str, ...], rounds: int, workers: int, step_tokens: int, name: str
) -> None:
    """Output and prompt tokens/s, time to the first token and between tokens, processor time and memory.

    QUICK=1 in the environment measures fewer and smaller loads, once.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the contenders are stopped too
    quick = os.environ.get("QUICK") == "1"
    console = Console(width=max(WIDTH, Console().width))

    def note(text: str) -> None:
        console.print(f"[dim]{text}", highlight=False)

    model = Model(BUILD / "bench" / name, name, note)
    settings = Settings(
        max_step_tokens=step_tokens,
        max_context=min(Settings.max_context, model.config["max_position_embeddings"]),
        threads=psutil.cpu_count() or 1,
    )
    workloads = {
        title: one
        for title, one in (QUICK if quick else WORKLOADS).items()
        if title in chosen and one.context <= settings.max_context
    }
    lineup = Lineup()
    try:
        start(lineup, names, model, BUILD / "bench" / "venvs", settings, workers)
        measuring = Measuring(lineup, model.config["vocab_size"], note)
        measured = measuring.run(workloads, 1 if quick else rounds)
    finally:
        lineup.stop()
    beside = {title: one.beside for title, one in workloads.items()}
    facts = {
        "model": name,
        **asdict(settings),
        "workers": workers,
        "cores": psutil.cpu_count(),
        "read_gb_per_s": round(statistics.median(measuring.gb_per_s), 1),
        "weights": {name: one.weights for name, one in lineup.entrants.items()},
        "left_out": lineup.left_out,
    }
    write(console, facts, measured, features(measured, beside), lineup)


def write(
    console: Console, facts: dict[str, Any], measured: Sequence[Row], compared: Sequence[Row], lineup: Lineup
) -> None:
    caption = ", ".join(f"{name} {value}" for name, value in facts.items() if not isinstance(value, dict))
    console.print(table(measured, COLUMNS, "Braid and its peers", caption))
    if compared:
        console.print(table(compared, FEATURES, "A workload's figures through those of the one beside it"))
    for name, reason in lineup.left_out.items():
        console.print(f"left out: {name}: {reason}", highlight=False, markup=False)
    file = {"facts": facts, "rows": measured, "features": compared}
    (BUILD / "bench.json").write_text(json.dumps(file, indent=2) + "\n")


if __name__ == "__main__":
    main()
