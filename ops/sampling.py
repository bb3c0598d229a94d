"""Chooses one token from each row of logits: the likeliest, or one sampled with one uniform number per row.

The result for a row is bit-equal to the result for that row alone: nothing is summed over rows, and sums
along a row do not depend on other rows.

Shared terms.  logits: float32[n, vocab], read only.  rows: int64[m], indices of rows of `logits`.
temperature: float32[m], > 0.  chances: float32[m] in [0, 1), a uniform number each.  Results: int64[m].  The
weight of an id is exp((logit - largest logit) / temperature) in float32, so that the largest weight is 1; in
a row whose largest logit is not finite its maxima have the weight 1 and all others 0 (NaN is a maximum).  The
sampled id is the first, in the order of ids, whose cumulative weight exceeds (uniform + HALF_STEP) * total.
Ids are ordered by weight, largest first, and ties by id, lowest first.
"""

from __future__ import annotations

import numpy as np

from ops.candidates import pad_rows
from ops.contract import Floats, Index, RowSampling
from ops.full_row_sampling import draw_filtered_row, draw_top_p
from ops.min_p_top_k import Shortlist, find_shortlist, group_by_length
from ops.nucleus import FEW, likeliest_mask
from ops.random import uniforms
from ops.token_weights import BLOCK, find_blocks, find_places, pick_from_lists, sum_blocks, weigh


def choose(logits: Floats, rows: RowSampling) -> Index:
    """One id per row, int64[n]: greedy where the temperature is 0, else sampled after the filters."""
    temperature, min_p, top_k, top_p, keys, counters = rows
    random = temperature > 0
    if not random.any():
        return likeliest(logits)
    filtered = random & ((min_p > 0) | (top_k < logits.shape[1]) | (top_p < 1))
    tokens = np.zeros(len(logits), np.int64)
    certain, free, some = (np.flatnonzero(which) for which in (~random, random & ~filtered, filtered))
    if len(certain):
        tokens[certain] = greedy(logits, certain)
    if len(free):
        chances = uniforms(keys[free], counters[free])
        tokens[free] = draw(logits, free, temperature[free], chances)
    if len(some):
        chances = uniforms(keys[some], counters[some])
        tokens[some] = draw_filtered(
            logits, some, temperature[some], min_p[some], top_k[some], top_p[some], chances
        )
    return tokens


def likeliest(logits: Floats) -> Index:
    """The likeliest id of every row, int64[n]; ties go to the lowest id."""
    return np.asarray(logits.argmax(axis=1), np.int64)


def greedy(logits: Floats, rows: Index) -> Index:
    """The likeliest id of each row, int64[m]; ties go to the lowest id."""
    return np.array([logits[row].argmax() for row in rows], np.int64)


def draw(logits: Floats, rows: Index, temperature: Floats, chances: Floats) -> Index:
    """One id per row, int64[m], sampled from the whole vocabulary."""
    vocab = logits.shape[1]
    peaks, sums = sum_blocks(logits, rows, temperature)
    blocks, targets = find_blocks(np.cumsum(sums, axis=1, dtype=np.float64), chances)
    columns = blocks[:, None] * BLOCK + np.arange(BLOCK)
    inside = logits[rows[:, None], np.minimum(columns, vocab - 1)]
    weigh(inside, peaks, temperature, inside)
    inside[columns >= vocab] = 0
    return blocks * BLOCK + find_places(inside, targets)


def draw_filtered(
    logits: Floats,
    rows: Index,
    temperature: Floats,
    min_p: Floats,
    top_k: Index,
    top_p: Floats,
    chances: Floats,
) -> Index:
    """One id per row, int64[m], sampled from the ids that min_p, then top_k, then top_p leave.

    min_p: float32[m]: ids of a smaller weight are dropped (the largest weight is 1); 0 is off.  top_k:
    int64[m] >= 1: the k first ids stay; vocab or more is off.  top_p: float32[m] in [0, 1]: the shortest run
    of first ids stays whose weight reaches this share of what the two before left (Holtzman et al., "The
    curious case of neural text degeneration", 2020); 1 is off, 0 leaves one id.
    """
    vocab = logits.shape[1]
    shared = (top_p < 1) & (min_p <= 0) & (top_k >= vocab) & (vocab > FEW)
    tokens = np.empty(len(rows), np.int64)
    at = np.flatnonzero(shared)
    if len(at):
        tokens[at] = _draw_shares(logits, rows[at], temperature[at], top_p[at], chances[at])
    at = np.flatnonzero(~shared)
    if len(at):
        limits = min_p[at], top_k[at], top_p[at]
        tokens[at] = _draw_limited(logits, rows[at], temperature[at], *limits, chances[at])
    return tokens


def _draw_shares(
    logits: Floats, rows: Index, temperature: Floats, top_p: Floats, chances: Floats
) -> list[int]:
    """Rows with top_p as the only filter."""
    peaks, sums = sum_blocks(logits, rows, temperature)
    each = zip(rows, peaks, sums, temperature, top_p.tolist(), chances, strict=True)
    return [draw_top_p(logits[row], *of_row) for row, *of_row in each]


def _draw_limited(
    logits: Floats,
    rows: Index,
    temperature: Floats,
    min_p: Floats,
    top_k: Index,
    top_p: Floats,
    chances: Floats,
) -> Index:
    """Rows with min_p or top_k: those with many remaining ids one by one, the others together."""
    tokens = np.empty(len(rows), np.int64)
    listed: dict[int, Shortlist] = {}
    for i, at in enumerate(rows.tolist()):
        peak, some = find_shortlist(logits[at], float(temperature[i]), float(min_p[i]), int(top_k[i]))
        if some is not None:
            listed[i] = peak, some
        else:
            limits = min_p[i], int(top_k[i]), float(top_p[i])
            tokens[i] = draw_filtered_row(logits[at], peak, temperature[i], *limits, chances[i])
    for at in group_by_length(listed):
        peaks, lists = zip(*(listed[i] for i in at.tolist()), strict=True)
        ids, weights = pad_rows(lists, -np.inf)
        weigh(weights, np.array(peaks), temperature[at], weights)
        weights *= likeliest_mask(weights, min_p[at], top_k[at], top_p[at])
        tokens[at] = pick_from_lists(ids, weights, chances[at])
    return tokens
