"""Finds the few ids of a row that min_p and top_k may leave, without computing the row's weights."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ops.candidates import COLUMNS_PER_WANTED, column_maxima, entries_at_least, num_columns
from ops.contract import Floats, Index
from ops.nucleus import FEW

Entries = tuple[Index, Floats]
"""Ids of one row, ascending, and a number for each: both [k]."""
Shortlist = tuple[np.float32, Entries]
"""The largest logit of a row, and the logits of the ids that may stay."""

FEW_COLUMNS = 256
"""When more of a row's columns are above min_p, the whole row is weighed instead."""
LOWEST = float(np.finfo(np.float32).min)


def find_shortlist(
    row: Floats, temperature: float, min_p: float, top_k: int
) -> tuple[np.float32, Entries | None]:
    """The largest logit of float32[vocab], and the ids that min_p and top_k may leave with their logits.

    None instead of the ids when they may be many.  min_p is a share of the largest weight; see
    `ops.sampling`.
    """
    peak = row.max()
    if len(row) <= FEW:
        return peak, (np.arange(len(row)), row)
    bounded = top_k * COLUMNS_PER_WANTED <= len(row)
    if not bounded and min_p <= 0:
        return peak, None
    columns = column_maxima(row, num_columns(len(row), top_k if bounded else 1))
    bound = float(np.sort(columns)[-top_k]) if bounded else LOWEST
    floor = _least_logit(float(peak), bound, temperature, min_p)
    if not bounded and np.count_nonzero(columns >= floor) > FEW_COLUMNS:
        return peak, None
    return peak, entries_at_least(row, columns, floor)


def _least_logit(peak: float, bound: float, temperature: float, min_p: float) -> float:
    """The logit below which no id stays, from min_p and a bound of the last logit that top_k leaves."""
    if not math.isfinite(peak):
        return math.nan
    floor = max(bound, peak + temperature * math.log(min_p)) if min_p > 0 else bound
    # Rounding in `weigh` may tie a slightly smaller logit with the last one that stays.
    floor -= temperature * 1e-4 + abs(floor) * 1e-6
    return min(max(floor, LOWEST), peak)


def group_by_length(listed: Mapping[int, Shortlist]) -> list[Index]:
    """Indices of rows to process together: all short ones, and each long one alone, to limit padding."""
    small = [i for i, (_, (ids, _)) in listed.items() if len(ids) <= FEW]
    large = [[i] for i, (_, (ids, _)) in listed.items() if len(ids) > FEW]
    return [np.array(rows) for rows in ([small] if small else []) + large]
