"""Measurements → rows, a table for people, a file for programs.  Knows nothing of what was measured how."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.table import Table

from tools.bench.load import Figures

Row = dict[str, float | int | str]

COLUMNS = {
    "contender": ("", "{}"),
    "concurrency": ("streams", "{}"),
    "tokens_per_s": ("tokens/s", "{:.1f}"),
    "ratio": ("ratio", "{:.2f}"),
    "first_p50_ms": ("first ms\np50", "{:.0f}"),
    "first_p99_ms": ("\np99", "{:.0f}"),
    "gap_p50_ms": ("between ms\np50", "{:.1f}"),
    "gap_p99_ms": ("\np99", "{:.1f}"),
    "cpu_ms_per_token": ("cpu ms\n/token", "{:.1f}"),
    "peak_mb": ("peak MB", "{:.0f}"),
}
"""Field of a row → what stands above it, and how it is written."""


class Taken(NamedTuple):
    """One load on one contender: figures, and processor milliseconds per output token of its processes."""

    figures: Figures
    cpu_ms_per_token: float


def rows(
    concurrency: int, taken: Mapping[str, Sequence[Taken]], peak_bytes: Mapping[str, int], peer: str
) -> list[Row]:
    """A row per contender: medians over its rounds; `ratio` is the median of its rounds against `peer`'s."""
    made: list[Row] = []
    for name, own in taken.items():
        row: Row = {"contender": name, "concurrency": concurrency}
        for field in Figures._fields:
            row[field] = statistics.median(getattr(one.figures, field) for one in own)
        row["cpu_ms_per_token"] = statistics.median(one.cpu_ms_per_token for one in own)
        row["peak_mb"] = peak_bytes[name] / 1e6
        if peer in taken:
            row["ratio"] = statistics.median(
                one.figures.tokens_per_s / other.figures.tokens_per_s
                for one, other in zip(own, taken[peer], strict=True)
            )
        made.append(row)
    return made


def table(rows: Sequence[Row], title: str, caption: str) -> Table:
    made = Table(title=title, caption=caption)
    for field, (head, _) in COLUMNS.items():
        made.add_column(head, justify="left" if field == "contender" else "right", no_wrap=True)
    for row in rows:
        made.add_row(
            *(form.format(row[field]) if field in row else "" for field, (_, form) in COLUMNS.items())
        )
    return made
