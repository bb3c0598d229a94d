"""Operators of a model as a device tells of them → rows for people.  Pure; knows no device."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

GROUPS = {
    "PagedAttentionExtension": "attention",
    "RMS": "norms",
    "RMSNorm": "norms",
    "MVN": "norms",
    "RoPE": "rotary positions",
    "GatherCompressed": "embedding",
    "Reorder": "conversions",
    "Convert": "conversions",
    "Add": "elementwise",
    "Multiply": "elementwise",
    "Eltwise": "elementwise",
    "Subgraph": "elementwise",
}
"""Type of an operator, as the device runs it → what it is called here; others are the rest."""
PRODUCTS = ("FullyConnected", "FullyConnectedCompressed", "LLMMLP", "QKVProjection")
"""Matrix products by weights.  Those of all layers are one row, named as in the layer."""
IN_LAYER = re.compile(r"layers\.\d+\.([\w.]+)")
OF_MODEL = re.compile(r"(\w+)/")


@dataclass(frozen=True)
class Row:
    """Operators of one sort in one step."""

    what: str
    number: int
    ms: float


@dataclass(frozen=True)
class Operators:
    """`step_ms` is the call of the session; the rows are what the device counted, the longest first."""

    sequences: int
    context: int
    steps: int
    step_ms: float
    rows: list[Row]

    @property
    def counted_ms(self) -> float:
        return sum(row.ms for row in self.rows)


def rows(operators: Iterable[tuple[str, float]]) -> list[Row]:
    """What operators are called, and their seconds → a row for each sort, the longest first."""
    sorts: dict[str, list[float]] = defaultdict(list)
    for what, seconds in operators:
        if seconds > 0:
            sorts[what].append(seconds)
    made = [Row(what, len(spent), 1e3 * sum(spent)) for what, spent in sorts.items()]
    return sorted(made, key=lambda row: -row.ms)


def called(kind: str, name: str) -> str:
    """What an operator of a type and a name is called here."""
    if kind not in PRODUCTS:
        return GROUPS.get(kind, "the rest")
    found = IN_LAYER.search(name)
    if found is None:
        found = OF_MODEL.search(name.rpartition("model.")[2])
    return "product " + (found[1] if found else "by weights")
