"""Samples an id from a whole row of weights, for rows of which many ids may stay.

See `ops.sampling` for the definition of a weight and of the sampled id.
"""

from __future__ import annotations

import numpy as np

from ops.contract import Floats
from ops.min_p_top_k import Entries
from ops.nucleus import heaviest, heaviest_blocks, keep_top_k, nucleus
from ops.scratch import scratch
from ops.token_weights import (
    block_sums,
    blocks_of,
    pick_from_lists,
    pick_from_row,
    running_sums,
    weigh,
    weights_of,
)


def draw_top_p(
    row: Floats, peak: np.float32, blocks: Floats, temperature: np.float32, top_p: float, chance: np.float32
) -> int:
    """The sampled id of one row, float32[vocab], with top_p as the only filter; blocks: its sums by block."""
    some = nucleus_of_row(row, peak, blocks, temperature, top_p)
    if isinstance(some, tuple):
        return int(pick_from_lists(some[0][None], some[1][None], np.array([chance]))[0])
    return pick_from_row(some, running_sums(some), chance)


def nucleus_of_row(
    row: Floats, peak: np.float32, blocks: Floats, temperature: np.float32, top_p: float
) -> Entries | Floats:
    """The nucleus of one row: ids and their weights if they are in few blocks, else a whole row of weights.

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


def draw_filtered_row(
    row: Floats,
    peak: np.float32,
    temperature: np.float32,
    min_p: np.float32,
    top_k: int,
    top_p: float,
    chance: np.float32,
) -> int:
    """The sampled id of one row, float32[vocab], when the filters leave many ids."""
    weights = _weights(row, peak, temperature)
    if min_p > 0:
        weights *= np.greater_equal(weights, min_p, out=scratch("heavy", weights.shape, np.bool_))
    if top_k < len(row):
        weights = keep_top_k(weights, top_k)
    if top_p < 1:
        total = float(block_sums(weights).sum(dtype=np.float64))
        weights = nucleus(weights, top_p * total, total)
    return pick_from_row(weights, running_sums(weights), chance)


def _weights(row: Floats, peak: np.float32, temperature: np.float32) -> Floats:
    """The whole row of weights, float32[width], of float32[vocab]."""
    whole: Floats = weights_of(row[None], np.array([peak]), np.array([temperature]))[0]
    return whole
