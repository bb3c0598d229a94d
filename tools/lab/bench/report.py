"""Converts measurements to rows, tables for the terminal and a JSON file."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.table import Table

from tools.lab.bench.figures import Figures

Row = dict[str, float | int | str]

COLUMNS = {
    "workload": ("workload", "{}"),
    "system": ("", "{}"),
    "tokens_per_s": ("tokens/s", "{:.1f}"),
    "tokens_ratio": ("first\n/ it", "{:.2f}"),
    "prompt_tokens_per_s": ("prompt\ntokens/s", "{:.0f}"),
    "prompt_ratio": ("first\n/ it", "{:.2f}"),
    "bound_ratio": ("of memory\nbound", "{:.2f}"),
    "tokens_per_event": ("tokens\nat once", "{:.1f}"),
    "first_p50_ms": ("first ms\np50", "{:.0f}"),
    "first_p99_ms": ("\np99", "{:.0f}"),
    "gap_p50_ms": ("between ms\np50", "{:.1f}"),
    "gap_p99_ms": ("\np99", "{:.1f}"),
    "cpu_ms_per_token": ("cpu ms\n/token", "{:.1f}"),
    "peak_mb": ("peak MB", "{:.0f}"),
}
"""Field of a row → (column title, number format)."""
PAIRS = {
    "workload": ("workload", "{}"),
    "system": ("", "{}"),
    "against": ("against", "{}"),
    "tokens_ratio": ("tokens/s", "{:.2f}"),
    "lowest_ratio": ("worst\nround", "{:.2f}"),
    "decode_ratio": ("decoding", "{:.2f}"),
    "first_ratio": ("first ms", "{:.2f}"),
}
FEATURES = {
    "workload": ("workload", "{}"),
    "beside": ("beside", "{}"),
    "system": ("", "{}"),
    "tokens_ratio": ("tokens/s", "{:.2f}"),
    "first_ratio": ("first ms", "{:.2f}"),
}
TEXT = ("workload", "system", "beside", "against")


class Measurement(NamedTuple):
    """One load on one system, with processor milliseconds per output token and memory."""

    figures: Figures
    cpu_ms_per_token: float
    peak_bytes: int


def rows(
    workload: str, taken: Mapping[str, Sequence[Measurement]], bound: Mapping[str, float], own: str
) -> list[Row]:
    """A row per system: medians over its rounds.

    `tokens_ratio` and `prompt_ratio` are the medians of the rounds' ratios of `own` to it; `bound_ratio` is
    the share of `bound[system]`, the tokens/s that memory allows one stream, that a stream reached.
    """
    lines: list[Row] = []
    for name, rounds in taken.items():
        row: Row = {"workload": workload, "system": name}
        for field in Figures._fields:
            row[field] = statistics.median(getattr(result.figures, field) for result in rounds)
        row["cpu_ms_per_token"] = statistics.median(result.cpu_ms_per_token for result in rounds)
        row["peak_mb"] = max(result.peak_bytes for result in rounds) / 1e6
        row["bound_ratio"] = float(row["decode_tokens_per_s"]) / bound[name]
        if own in taken and name != own:
            pairs = [(ours.figures, its.figures) for ours, its in zip(taken[own], rounds, strict=True)]
            row["tokens_ratio"] = _ratio("tokens_per_s", pairs)
            row["prompt_ratio"] = _ratio("prompt_tokens_per_s", pairs)
        lines.append(row)
    return lines


def pairs(
    workload: str, taken: Mapping[str, Sequence[Measurement]], compared: Sequence[tuple[str, str]]
) -> list[Row]:
    """A row per pair that ran: the first's figures divided by the second's, medians of the rounds' ratios."""
    lines: list[Row] = []
    for name, other in compared:
        if name in taken and other in taken:
            both = [
                (result.figures, its.figures) for result, its in zip(taken[name], taken[other], strict=True)
            ]
            row: Row = {"workload": workload, "system": name, "against": other}
            row["tokens_ratio"] = _ratio("tokens_per_s", both)
            row["lowest_ratio"] = min(result.tokens_per_s / its.tokens_per_s for result, its in both)
            row["decode_ratio"] = _ratio("decode_tokens_per_s", both)
            row["first_ratio"] = _ratio("first_p50_ms", both)
            lines.append(row)
    return lines


def _ratio(field: str, pairs: Sequence[tuple[Figures, Figures]]) -> float:
    return statistics.median(getattr(ours, field) / (getattr(its, field) or math.inf) for ours, its in pairs)


def features(rows: Sequence[Row], beside: Mapping[str, str]) -> list[Row]:
    """The effect of a workload's feature: its figures divided by those of the workload without it."""
    known = {(row["workload"], row["system"]): row for row in rows}
    lines: list[Row] = []
    for (workload, system), row in known.items():
        other = known.get((beside.get(str(workload), ""), system))
        if other is not None:
            lines.append(
                {
                    "workload": workload,
                    "beside": other["workload"],
                    "system": system,
                    "tokens_ratio": float(row["tokens_per_s"]) / float(other["tokens_per_s"]),
                    "first_ratio": float(row["first_p50_ms"]) / float(other["first_p50_ms"]),
                }
            )
    return lines


def table(
    rows: Sequence[Row], columns: Mapping[str, tuple[str, str]], title: str, caption: str = ""
) -> Table:
    built = Table(title=title, caption=caption)
    for field, (head, _) in columns.items():
        built.add_column(head, justify="left" if field in TEXT else "right", no_wrap=True)
    for row, above in zip(rows, [None, *rows[:-1]], strict=True):
        first = above is None or above["workload"] != row["workload"]
        if first and above is not None:
            built.add_section()
        built.add_row(*(_cell(row, field, form, first) for field, (_, form) in columns.items()))
    return built


def _cell(row: Row, field: str, form: str, first: bool) -> str:
    repeated = field in ("workload", "beside") and not first
    return "" if repeated or field not in row else form.format(row[field])
