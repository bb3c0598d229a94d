"""T5's bias of scores by distance, from its buckets to a table with one column for each distance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.export.encoder_decoder.form import Buckets

RELATIVE = "relative_bias.weight"
"""The name of T5's table behind the prefix of its side."""
Table = NDArray[np.float32]


def bias_backwards(weight: NDArray[Any], buckets: Buckets) -> Table:
    """float32[heads, farthest + 1]: column d for keys d tokens before the query, the last for all farther.

    `weight`: [buckets, heads].
    """
    return _table(weight, _buckets(np.arange(buckets.farthest + 1), buckets.count, buckets.farthest))


def bias_both_ways(weight: NDArray[Any], buckets: Buckets) -> Table:
    """float32[heads, 2 · farthest + 1]: column farthest + d for keys d tokens behind the query, before it for
    d < 0; the first and the last one for all farther.
    """
    half = buckets.count // 2
    near = _buckets(np.arange(buckets.farthest + 1), half, buckets.farthest)
    return _table(weight, np.concatenate([near[:0:-1], near[:1], near[1:] + half]))


def _table(weight: NDArray[Any], numbers: NDArray[np.int64]) -> Table:
    return np.ascontiguousarray(np.asarray(weight, np.float32)[numbers].T)


def _buckets(distances: NDArray[np.int64], count: int, farthest: int) -> NDArray[np.int64]:
    """Half of the buckets are for one distance each, the others for more and more of them."""
    exact = count // 2
    ratio = np.maximum(distances, 1).astype(np.float32) / np.float32(exact)
    share = np.log(ratio) / np.float32(math.log(farthest / exact)) * np.float32(count - exact)
    far = np.minimum(exact + np.maximum(share, 0).astype(np.int64), count - 1)
    return np.where(distances < exact, distances, far)
