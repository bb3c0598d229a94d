"""Formats the operators of a model, as a device reports them, as table rows."""

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
"""Type of an operator in the device's plan → name in the table; other types are "the rest"."""
OWN = "Reference"
"""Type of Braid's own operators in the device's plan."""
PRODUCTS = ("FullyConnected", "FullyConnectedCompressed", "LLMMLP", "QKVProjection", OWN)
"""Types of matrix products with weights; equal products of all layers form one row."""
IN_LAYER = re.compile(r"layers\.\d+\.([\w.]+)")
OF_MODEL = re.compile(r"(\w+)/")


@dataclass(frozen=True)
class Row:
    """Operators of one name in one step."""

    what: str
    number: int
    ms: float


@dataclass(frozen=True)
class Operators:
    """`step_ms` is the time of the session's call, with `tokens` of each sequence; rows are what the device
    counted, longest first.
    """

    sequences: int
    context: int
    tokens: int
    steps: int
    step_ms: float
    rows: list[Row]

    @property
    def counted_ms(self) -> float:
        return sum(row.ms for row in self.rows)


def operator_rows(operators: Iterable[tuple[str, float]]) -> list[Row]:
    """(name, seconds) of operators → a row for each name, longest first."""
    sorts: dict[str, list[float]] = defaultdict(list)
    for what, seconds in operators:
        if seconds > 0:
            sorts[what].append(seconds)
    made = [Row(what, len(spent), 1e3 * sum(spent)) for what, spent in sorts.items()]
    return sorted(made, key=lambda row: -row.ms)


def operator_name(kind: str, name: str) -> str:
    """The name in the table of an operator with this type and node name."""
    if kind not in PRODUCTS:
        return GROUPS.get(kind, "the rest")
    found = IN_LAYER.search(name)
    if found is None:
        found = OF_MODEL.search(name.rpartition("model.")[2])
    return f"{'own product' if kind == OWN else 'product'} {found[1] if found else 'by weights'}"
