"""Runs one suite: starts its systems, measures them on its workloads, and stops them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from tools.lab.bench.base.load import Settings
from tools.lab.bench.entries import Entries, start
from tools.lab.bench.measuring import Measuring
from tools.lab.bench.model import Model
from tools.lab.bench.report import features
from tools.lab.bench.suites import COMPARED, Suite
from tools.lab.bench.workloads import Workload


@dataclass(frozen=True)
class Plan:
    """Settings that all suites share; `venvs` holds the peers' environments, `workers` are Braid's."""

    model: Model
    venvs: Path
    settings: Settings
    workloads: Mapping[str, Workload]
    rounds: int
    workers: int


def run(title: str, suite: Suite, plan: Plan) -> dict[str, Any]:
    """`facts`, and rows: of each system, of `pairs` of them, and of `features`, pairs of workloads."""
    model, entries = plan.model, Entries()
    workloads = {name: workload for name, workload in plan.workloads.items() if name in suite.workloads}
    own = suite.systems[0]
    try:
        start(entries, suite.systems, model, plan.venvs, plan.settings, plan.workers)
        measuring = Measuring(entries, model.config["vocab_size"], model.stage, own, COMPARED)
        measured = measuring.run(workloads, plan.rounds)
    finally:
        entries.stop()
    gb_per_s = statistics.median(measuring.gb_per_s) if measuring.gb_per_s else 0.0
    facts = {
        "suite": title,
        "first": own,
        "model": model.name,
        **asdict(plan.settings),
        "workers": plan.workers,
        "cores": psutil.cpu_count(),
        "read_gb_per_s": round(gb_per_s, 1),
        "weights": {name: entry.weights for name, entry in entries.started.items()},
        "left_out": entries.left_out,
    }
    compared = features(measured, {name: workload.beside for name, workload in workloads.items()})
    return {"facts": facts, "rows": measured, "pairs": measuring.compared, "features": compared}
