"""The id that is drawn from a row of which many may stay, so that it is weighed as a whole.

Knows one row at a time; `ops.sampling` says what a weight is and which id is drawn.
"""

from __future__ import annotations

import numpy as np

from ops.candidates import Values
from ops.min_p_top_k import Found
from ops.nucleus import first_ids, heaviest, heaviest_blocks, nucleus
from ops.scratch import scratch
from ops.token_weights import block_sums, blocks_of, pick, pick_kept, running_sums, weigh, weights_of


def draw_share(
    row: Values, peak: np.float32, blocks: Values, temperature: np.float32, top_p: float, chance: np.float32
) -> int:
    """The drawn id of one row, float32[vocab], that only top_p limits; blocks: its sums by block."""
    some = share_of(row, peak, blocks, temperature, top_p)
    if isinstance(some, tuple):
        return int(pick_kept(some[0][None], some[1][None], np.array([chance]))[0])
    return pick(some, running_sums(some), chance)


def share_of(
    row: Values, peak: np.float32, blocks: Values, temperature: np.float32, top_p: float
) -> Found | Values:
    """The nucleus of one row: ids and their weights if they lie in few blocks, else a whole row of weights.

    top_p: the share of `blocks`, in [0, 1).
    """
    total = float(blocks.sum(dtype=np.float64))
    wanted, floor, mass = top_p * total, np.inf, 0.0
    heavy = heaviest_blocks(blocks)
    if heavy is not None:
        ids, weights = blocks_of(row, heavy[0])
        weigh(weights[None], np.array([peak]), np.array([temperature]), weights[None])
        at, floor = np.flatnonzero(weights >= heavy[1]), heavy[1]
        mass = float(weights[at].sum(dtype=np.float64))
        if mass >= wanted:
            at = at[heaviest(weights[at], wanted)]
            return ids[at], weights[at]
    return nucleus(_weights(row, peak, temperature), wanted, total, floor, mass)


def draw_limited(
    row: Values,
    peak: np.float32,
    temperature: np.float32,
    min_p: np.float32,
    top_k: int,
    top_p: float,
    chance: np.float32,
) -> int:
    """The drawn id of one row, float32[vocab], by limits that leave many."""
    weights = _weights(row, peak, temperature)
    if min_p > 0:
        weights *= np.greater_equal(weights, min_p, out=scratch("heavy", weights.shape, np.bool_))
    if top_k < len(row):
        weights = first_ids(weights, top_k)
    if top_p < 1:
        total = float(block_sums(weights).sum(dtype=np.float64))
        weights = nucleus(weights, top_p * total, total)
    return pick(weights, running_sums(weights), chance)


def _weights(row: Values, peak: np.float32, temperature: np.float32) -> Values:
    """The whole row of weights, float32[width], of float32[vocab]."""
    whole: Values = weights_of(row[None], np.array([peak]), np.array([temperature]))[0]
    return whole
