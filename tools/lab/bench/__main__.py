"""`python -m tools.lab.bench`: compares Braid with its peers, which alternate within each suite.

The speed of a machine can change by half within minutes, so only figures of one suite are comparable. Prints
tables and writes `build/bench.json`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import psutil
from rich.console import Console

from tools.lab.bench.base.load import Settings
from tools.lab.bench.entries import NAMES
from tools.lab.bench.model import NAMES as MODELS
from tools.lab.bench.model import Model
from tools.lab.bench.report import COLUMNS, FEATURES, PAIRS, table
from tools.lab.bench.running import Plan, run
from tools.lab.bench.suites import QUICK_SUITES, SUITES, alone
from tools.lab.bench.workloads import QUICK, WORKLOADS

BUILD = Path("build")
WIDTH = 176


@click.command()
@click.option("--suite", "--heat", "titles", multiple=True, type=click.Choice(list(SUITES)), default=SUITES)
@click.option(
    "--system", "--contender", "names", multiple=True, type=click.Choice(NAMES), help="These in one suite."
)
@click.option("--workload", "chosen", multiple=True, type=click.Choice(list(WORKLOADS)), default=WORKLOADS)
@click.option("--rounds", default=3, show_default=True, help="How often each load is repeated.")
@click.option("--workers", default=1, show_default=True, help="HTTP processes of Braid.")
@click.option("--step-tokens", default=512, show_default=True, help="Tokens in one step, for everyone.")
@click.option("--model", "name", type=click.Choice(MODELS), default=MODELS[0], show_default=True)
def main(
    titles: tuple[str, ...],
    names: tuple[str, ...],
    chosen: tuple[str, ...],
    rounds: int,
    workers: int,
    step_tokens: int,
    name: str,
) -> None:
    """Measure output and prompt tokens/s, time to first token and between tokens, processor time and memory.

    QUICK=1 in the environment measures fewer and smaller loads, once.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the systems are stopped too
    quick = os.environ.get("QUICK") == "1"
    console = Console(width=max(WIDTH, Console().width))

    def note(text: str) -> None:
        console.print(f"[dim]{text}", highlight=False)

    model = Model.within(BUILD / "bench", name, note)
    settings = Settings(
        max_step_tokens=step_tokens,
        max_context=min(Settings.max_context, model.config["max_position_embeddings"]),
        threads=psutil.cpu_count() or 1,
    )
    workloads = {
        title: workload
        for title, workload in (QUICK if quick else WORKLOADS).items()
        if title in chosen
        and workload.context <= settings.max_context
        and (model.is_bigram or not workload.is_draftable)
    }
    plan = Plan(model, BUILD / "bench" / "venvs", settings, workloads, 1 if quick else rounds, workers)
    suites = QUICK_SUITES if quick else {title: SUITES[title] for title in titles}
    written: list[dict[str, Any]] = []
    for title, suite in (alone(names) if names else suites).items():
        if not any(name in workloads for name in suite.workloads):
            continue
        written.append(run(title, suite, plan))
        print_summary(console, written[-1])
        (BUILD / "bench.json").write_text(json.dumps(written, indent=2) + "\n")


def print_summary(console: Console, results: Mapping[str, Any]) -> None:
    facts = results["facts"]
    caption = ", ".join(f"{name} {value}" for name, value in facts.items() if not isinstance(value, dict))
    console.print(table(results["rows"], COLUMNS, f"{facts['first']} and others", caption))
    if results["pairs"]:
        console.print(table(results["pairs"], PAIRS, "A system's figures through those of another"))
    if results["features"]:
        title = "A workload's figures through those of the one beside it"
        console.print(table(results["features"], FEATURES, title))
    for name, reason in facts["left_out"].items():
        console.print(f"left out: {name}: {reason}", highlight=False, markup=False)


if __name__ == "__main__":
    main()
