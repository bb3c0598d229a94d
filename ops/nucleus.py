"""Filters weights by min_p, then top_k, then top_p (nucleus sampling): few ids by sorting, a whole row
without.

Ids are ordered by weight, largest first, and ties by id, lowest first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ops.contract import Floats, Index
from ops.scratch import scratch
from ops.token_weights import running_sums

HEAD_BLOCKS = 8
"""A nucleus is first searched in the heaviest blocks: one of this number of blocks."""
FEW = 4096
"""Up to this number, sorting the weights is faster than several passes over them."""
SAMPLED = 64
"""One of this number of weights is sorted to estimate where a nucleus ends."""
MARGIN, SLACK = 4, 1.5
"""How much further than estimated the end is searched: sampled weights, and times the estimated distance."""
SMALLEST = float(np.finfo(np.float32).smallest_subnormal)


def likeliest_mask(weights: Floats, min_p: Floats, top_k: Index, top_p: Floats) -> NDArray[np.bool_]:
    """Which of the weights (float32[n, k], in the order of ids) min_p, top_k and top_p leave: bool[n, k].

    min_p, top_p: float32[n]; top_k: int64[n].  Only values are sorted: an id stays when it is above the last
    value that stays, or among the first equal to it.
    """
    ordered = np.sort(weights, axis=1)[:, ::-1]
    sums = np.cumsum(ordered, axis=1, dtype=np.float64)
    remaining = np.minimum(top_k, np.count_nonzero(weights >= min_p[:, None], axis=1))
    total = np.take_along_axis(sums, remaining[:, None] - 1, axis=1)[:, 0]
    short = np.count_nonzero(sums < (top_p * total)[:, None], axis=1)
    remaining = np.minimum(remaining, short + 1)
    last = np.take_along_axis(ordered, remaining[:, None] - 1, axis=1)
    above, equal = weights > last, weights == last
    spare = remaining - np.count_nonzero(above, axis=1)
    remaining_ties: NDArray[np.bool_] = equal & (np.cumsum(equal, axis=1) <= spare[:, None])
    return above | remaining_ties


def keep_top_k(weights: Floats, top_k: int) -> Floats:
    """A whole row of weights, float32[width], with 0 for all ids after the first `top_k`."""
    last = np.partition(weights, -top_k)[-top_k]
    return np.asarray(weights * _first(weights, last, top_k), np.float32)


def heaviest_blocks(blocks: Floats) -> tuple[Index, float] | None:
    """The heaviest blocks of a row, ascending, and a lower bound of their weight; blocks: the sums of all.

    An id with at least this weight is in one of them.  None when no id can reach the bound: the largest
    weight is 1.
    """
    count = -(-len(blocks) // HEAD_BLOCKS)
    floor = max(float(np.partition(blocks, -count)[-count]), SMALLEST)
    return (np.flatnonzero(blocks >= floor), floor) if floor <= 1 else None


def nucleus(
    weights: Floats, wanted: float, total: float, floor: float = np.inf, heavy: float = 0.0
) -> Floats:
    """A whole row, float32[width], with 0 for all ids after the first that weigh `wanted` together.

    heavy: the sum of all weights that are not below the floor; less than wanted.  A sorted sample of the
    others gives an estimate of the last weight that stays; the weights above the estimate are added up, which
    shows the error of the estimate.  Then only the ids in between are sorted; when the end is not among them,
    all ids are sorted.
    """
    ordered = np.sort(weights[::SAMPLED])[::-1]
    ordered = ordered[np.count_nonzero(ordered >= floor) :]
    if not ordered.any():
        return _nucleus_by_sorting(weights, wanted)
    sums = np.cumsum(ordered, dtype=np.float64)
    scale = sums[-1] / (total - heavy)
    place = min(int(np.searchsorted(sums, (wanted - heavy) * scale)), len(sums) - 1)
    above = np.greater(weights, ordered[place], out=scratch("above", weights.shape, np.bool_))
    remaining: Floats = np.multiply(weights, above, out=scratch("remaining", weights.shape, np.float32))
    missing = wanted - float(running_sums(remaining)[-1])
    moved = int(np.searchsorted(sums, sums[place] + SLACK * missing * scale))
    bound = _next_below(ordered, moved) if missing > 0 else _next_above(ordered, place, moved)
    further = np.greater(weights, bound, out=scratch("further", weights.shape, np.bool_))
    ids = np.flatnonzero(np.not_equal(further, above, out=further))
    between = weights[ids]
    inside = float(between.sum(dtype=np.float64))
    missing += inside if missing <= 0 else 0
    if not 0 < missing <= inside:
        return _nucleus_by_sorting(weights, wanted)
    remaining[ids] = between * heaviest(between, missing)
    return remaining


def _nucleus_by_sorting(weights: Floats, wanted: float) -> Floats:
    ids = np.flatnonzero(weights)
    remaining = np.zeros_like(weights)
    remaining[ids] = weights[ids] * heaviest(weights[ids], wanted)
    return remaining


def heaviest(weights: Floats, wanted: float) -> NDArray[np.bool_]:
    """The shortest run of first ids that weigh `wanted` together, at least one, of float32[k]: bool[k]."""
    ordered = np.sort(weights)[::-1]
    size = min(int(np.searchsorted(np.cumsum(ordered, dtype=np.float64), wanted)) + 1, len(weights))
    return _first(weights, ordered[size - 1], size)


def _first(weights: Floats, last: np.float32, size: int) -> NDArray[np.bool_]:
    """Which are above the last of `size` weights that stay, or the first equal to it."""
    remaining: NDArray[np.bool_] = weights > last
    remaining[np.flatnonzero(weights == last)[: size - np.count_nonzero(remaining)]] = True
    return remaining


def _next_below(ordered: Floats, moved: int) -> np.float32:
    """A bound just below the sampled weight MARGIN places after `moved`."""
    at = moved + MARGIN
    return np.nextafter(ordered[at], np.float32(0)) if at < len(ordered) else np.float32(0)


def _next_above(ordered: Floats, place: int, moved: int) -> np.float32:
    """The sampled weight MARGIN places before `moved`, or the next that is larger than that at `place`."""
    at = min(moved - MARGIN, int(np.count_nonzero(ordered > ordered[place])) - 1)
    return np.float32(ordered[at] if at >= 0 else np.inf)
