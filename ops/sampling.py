"""From a row of logits to one token: the likeliest, or one drawn by one uniform number per row.

Every function gives for a row, bit by bit, what it gives for that row alone: nothing is summed over rows, and
sums along a row do not depend on what stands beside it.  Knows nothing of requests, seeds or penalties.

Shared terms.  logits: float32[n, vocab], read only.  rows: int64[m], the rows of `logits` that are meant.
temperature: float32[m], > 0.  chances: float32[m] in [0, 1), a uniform number each.  Results: int64[m].
The weight of an id is exp((logit - largest logit) / temperature) in float32, so that the largest weight is 1;
in a row whose largest logit is not finite its maxima weigh 1 and all others 0 (NaN is a maximum).
The drawn id is the first, in the order of ids, whose cumulative weight exceeds (uniform + HALF_STEP) * total.
Ids order by weight, largest first, and ties by id, lowest first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ops.candidates import Values, at_least, floors, parts
from ops.contract import Index
from ops.random import uniforms

HALF_STEP = 2.0**-25
"""A uniform of 24 bits means the middle of its step: 0 does not draw the first id, however light it is."""
BLOCK = 256
"""Weights added in float32 (pairwise); the sums of blocks are added in float64."""
NUCLEUS_GUESS = 256
"""How many of the likeliest ids are tried first when only top_p limits them."""
NUCLEUS_LADDER = (64.0, 8.0, 1.0)
"""Then ids that weigh at least this many times the sure bound; fewer ids, but not always enough."""
LOWEST = np.finfo(np.float32).min
SMALLEST = np.finfo(np.float32).smallest_subnormal


def choose(
    logits: Values,
    temperature: Values,
    min_p: Values,
    top_k: Index,
    top_p: Values,
    keys: NDArray[np.uint64],
    counters: NDArray[np.uint64],
) -> Index:
    """One id per row: greedy where the temperature is 0, drawn from all ids, or from what filters leave.

    The parameters have an entry for each row of `logits`; the keys and counters give a row's uniform number
    (`ops.random.uniforms`).
    """
    random = temperature > 0
    filtered = random & ((min_p > 0) | (top_k < logits.shape[1]) | (top_p < 1))
    tokens = np.zeros(len(logits), np.int64)
    likeliest, free, some = (np.flatnonzero(which) for which in (~random, random & ~filtered, filtered))
    if len(likeliest):
        tokens[likeliest] = greedy(logits, likeliest)
    if len(free):
        tokens[free] = draw(logits, free, temperature[free], uniforms(keys[free], counters[free]))
    if len(some):
        chances = uniforms(keys[some], counters[some])
        tokens[some] = draw_filtered(
            logits, some, temperature[some], min_p[some], top_k[some], top_p[some], chances
        )
    return tokens


def greedy(logits: Values, rows: Index) -> Index:
    """The likeliest id of each row; ties go to the lowest id."""
    if len(rows) == len(logits):
        return np.asarray(logits.argmax(axis=1), np.int64)[rows]
    return np.array([logits[row].argmax() for row in rows], np.int64)


def draw(logits: Values, rows: Index, temperature: Values, chances: Values) -> Index:
    """One id per row, drawn from the whole vocabulary."""
    tokens = np.empty(len(rows), np.int64)
    for part in parts(len(rows), logits.shape[1]):
        weights = logits[rows[part]]
        weigh(weights, weights.max(axis=1), temperature[part])
        tokens[part] = _pick(weights, chances[part])
    return tokens


def draw_filtered(
    logits: Values,
    rows: Index,
    temperature: Values,
    min_p: Values,
    top_k: Index,
    top_p: Values,
    chances: Values,
) -> Index:
    """One id per row, drawn from what min_p, then top_k, then top_p leave of the vocabulary.

    min_p: float32[m]: ids of weight below it are dropped (the largest weight is 1); 0 is off.
    top_k: int64[m] >= 1: the k first ids stay; vocab or more is off.
    top_p: float32[m] in [0, 1]: the shortest run of first ids stays whose weight reaches this share of what
    the two before left (Holtzman et al., "The curious case of neural text degeneration", 2020); 1 is off, 0
    leaves one id.
    """
    vocab = logits.shape[1]
    nucleus = (top_k >= vocab) & (min_p <= 0)
    tokens = np.empty(len(rows), np.int64)
    for which in (np.flatnonzero(~nucleus), np.flatnonzero(nucleus)):
        for part in parts(len(which), vocab):
            at = which[part]
            values, heat, share = logits[rows[at]], temperature[at], top_p[at]
            if nucleus[at[0]]:
                tokens[at] = _draw_nucleus(values, heat, share, chances[at])
            else:
                tokens[at] = _draw_narrow(values, heat, min_p[at], top_k[at], share, chances[at])
    return tokens


def weigh(values: Values, peaks: Values, temperature: Values) -> None:
    """Turn logits (float32[n, k]) into weights in place; peaks: float32[n], each row's largest logit."""
    odd = np.flatnonzero(~np.isfinite(peaks))
    maxima = (values[odd] == peaks[odd, None]) | np.isnan(values[odd]) if len(odd) else None
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        values -= peaks[:, None]
        if (temperature != 1).any():
            values /= temperature[:, None]
        np.exp(values, out=values)
    if maxima is not None:
        values[odd] = maxima


def keep_likeliest(
    weights: Values, min_p: Values, top_k: Index, top_p: Values, total: NDArray[np.float64] | None
) -> NDArray[np.bool_]:
    """Which of the weights (float32[n, k], in the order of ids) min_p, top_k and top_p leave: bool[n, k].

    total: float64[n], the weight of which top_p is a share; None for what min_p and top_k leave.
    Only values are sorted: what stays is above the last kept value, or among the first equal to it.
    """
    ordered = np.sort(weights, axis=1)[:, ::-1]
    sums = np.cumsum(ordered, axis=1, dtype=np.float64)
    kept = np.minimum(top_k, np.count_nonzero(weights >= min_p[:, None], axis=1))
    if total is None:
        total = np.take_along_axis(sums, kept[:, None] - 1, axis=1)[:, 0]
    short = np.count_nonzero(sums < (top_p * total)[:, None], axis=1)
    kept = np.minimum(kept, short + 1)
    last = np.take_along_axis(ordered, kept[:, None] - 1, axis=1)
    above, equal = weights > last, weights == last
    spare = kept - np.count_nonzero(above, axis=1)
    kept_ties: NDArray[np.bool_] = equal & (np.cumsum(equal, axis=1) <= spare[:, None])
    return above | kept_ties


def nucleus(values: Values, top_p: np.float32) -> Index:
    """The first ids of one row, float32[vocab], whose weight reaches the share top_p of all: ascending."""
    weights = values[None].copy()
    share = np.maximum(np.array([top_p], np.float32), SMALLEST)  # so that no id is never enough
    weigh(weights, weights.max(axis=1), np.ones_like(share))
    totals = _block_sums(weights)[:, -1]
    ids, heavy = _climb_down(weights, share, totals)
    unlimited = np.full(1, ids.shape[1])
    return ids[keep_likeliest(heavy, np.zeros_like(share), unlimited, share, totals)]


def _draw_narrow(
    values: Values, temperature: Values, min_p: Values, top_k: Index, top_p: Values, chances: Values
) -> Index:
    """Where min_p or top_k limits a row, only ids that they may leave are weighed at all."""
    peaks = values.max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        floor = np.maximum(floors(values, top_k), peaks + temperature * np.log(min_p))
        # Rounding in `weigh` may tie a slightly smaller logit with the last kept one.
        floor = floor - (temperature * np.float32(1e-4) + np.abs(floor) * np.float32(1e-6))
        floor = np.minimum(np.maximum(floor, LOWEST), peaks)
    ids, weights = at_least(values, floor, -np.inf)
    weigh(weights, peaks, temperature)
    return _pick_kept(ids, weights, keep_likeliest(weights, min_p, top_k, top_p, None), chances)


def _draw_nucleus(values: Values, temperature: Values, top_p: Values, chances: Values) -> Index:
    """Where only top_p limits a row: try the few likeliest ids first, all rows at once."""
    num_rows, vocab = values.shape
    weigh(values, values.max(axis=1), temperature)
    totals = _block_sums(values)[:, -1]
    guess = floors(values, np.full(num_rows, min(NUCLEUS_GUESS, vocab)))
    tokens = np.empty(num_rows, np.int64)
    ids, weights = at_least(values, np.maximum(guess, SMALLEST), 0.0)
    enough = np.cumsum(weights, axis=1, dtype=np.float64)[:, -1] >= top_p * totals
    tokens[enough] = _pick_nucleus(
        ids[enough], weights[enough], top_p[enough], totals[enough], chances[enough]
    )
    for row in np.flatnonzero(~enough):
        one = slice(row, row + 1)
        ids, weights = _climb_down(values[one], top_p[one], totals[one])
        tokens[one] = _pick_nucleus(ids, weights, top_p[one], totals[one], chances[one])
    return tokens


def _climb_down(weights: Values, top_p: Values, totals: NDArray[np.float64]) -> tuple[Index, Values]:
    """The heaviest ids of one row, enough for its nucleus.

    Ids lighter than (1 - top_p) * total / vocab weigh, all together, less than what top_p leaves out.
    """
    sure = (1.0 - top_p.astype(np.float64)) * totals / weights.shape[1] * 0.999
    for times in NUCLEUS_LADDER:
        floor = np.maximum((sure * times).astype(np.float32), SMALLEST)
        ids, heavy = at_least(weights, floor, 0.0)
        if np.cumsum(heavy, axis=1, dtype=np.float64)[0, -1] >= top_p[0] * totals[0]:
            break
    return ids, heavy


def _pick_nucleus(
    ids: Index, weights: Values, top_p: Values, totals: NDArray[np.float64], chances: Values
) -> Index:
    unlimited = np.full(len(ids), ids.shape[1])
    kept = keep_likeliest(weights, np.zeros_like(top_p), unlimited, top_p, totals)
    return _pick_kept(ids, weights, kept, chances)


def _pick_kept(ids: Index, weights: Values, kept: NDArray[np.bool_], chances: Values) -> Index:
    """The drawn id.  Added one by one in float64: ids that were not kept between others change no sum."""
    sums = np.cumsum(np.where(kept, weights, np.float32(0)), axis=1, dtype=np.float64)
    at = np.count_nonzero(sums <= _targets(chances, sums)[:, None], axis=1)
    return np.take_along_axis(ids, at[:, None], axis=1)[:, 0]


def _targets(chances: Values, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The cumulative weight that the drawn id exceeds; exact in float64 but for the product."""
    return (chances.astype(np.float64) + HALF_STEP) * sums[:, -1]


def _block_sums(weights: Values) -> NDArray[np.float64]:
    """Weight of the first 1, 2, … blocks of each row: float64[n, ceil(vocab / BLOCK)]."""
    starts = np.arange(0, weights.shape[1], BLOCK)
    return np.cumsum(np.add.reduceat(weights, starts, axis=1), axis=1, dtype=np.float64)


def _pick(weights: Values, chances: Values) -> Index:
    """The drawn column: first its block, then the place in the block."""
    sums = _block_sums(weights)
    targets = _targets(chances, sums)
    blocks = np.count_nonzero(sums <= targets[:, None], axis=1)
    previous = np.take_along_axis(sums, np.maximum(blocks - 1, 0)[:, None], axis=1)[:, 0]
    before = np.where(blocks > 0, previous, 0)
    columns = blocks[:, None] * BLOCK + np.arange(BLOCK)
    inside = np.take_along_axis(weights, np.minimum(columns, weights.shape[1] - 1), axis=1)
    inside[columns >= weights.shape[1]] = 0
    within = np.cumsum(inside, axis=1, dtype=np.float64)
    at = np.count_nonzero(within <= (targets - before)[:, None], axis=1)
    # The float32 sum of a block may exceed its float64 sum by a rounding: stay on an id that has weight.
    last = BLOCK - 1 - np.argmax(inside[:, ::-1] > 0, axis=1)
    return np.asarray(blocks * BLOCK + np.minimum(at, last), np.int64)
