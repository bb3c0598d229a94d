"""The frame in which each token of a text was spoken, from what the tokens attend to.  Arithmetic alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MEDIAN_WIDTH = 7
"""Frames of the filter that takes single peaks out, as in Whisper."""
LEAST_DEVIATION = 1e-12


def first_frames(weights: NDArray[np.float32], num_before: int) -> NDArray[np.int64]:
    """The frame with which each token after the first `num_before` begins, none before the one of an earlier.

    `weights`: float32[heads, tokens, frames], how much each row of the decoder attends to each frame; row i
    chooses token i + 1, so there is a frame for each row from `num_before` - 1 on.
    """
    shares = weights / np.maximum(weights.sum(-1, keepdims=True), LEAST_DEVIATION)
    deviation = np.maximum(shares.std(-2, keepdims=True), LEAST_DEVIATION)
    scores = median_filtered((shares - shares.mean(-2, keepdims=True)) / deviation).mean(0)
    tokens, frames = cheapest_path(-scores[num_before - 1 :].astype(np.float64))
    return frames[np.diff(tokens, prepend=-1) > 0]


def median_filtered(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each number of a row replaced by the median of those around it."""
    half = MEDIAN_WIDTH // 2
    if values.shape[-1] <= half:
        return values
    padded = np.pad(values, [*[(0, 0)] * (values.ndim - 1), (half, half)], mode="reflect")
    around = np.stack([padded[..., i : i + values.shape[-1]] for i in range(MEDIAN_WIDTH)])
    around.partition(half, axis=0)
    middle: NDArray[np.float32] = around[half]
    return middle


def cheapest_path(costs: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Dynamic time warping: rows and columns of the path from the first cell to the last with the least sum.

    A step goes one row down, one column on, or both.
    """
    num_rows, num_columns = costs.shape
    total = np.full((num_rows + 1, num_columns + 1), np.inf)
    total[0, 0] = 0
    for i, row in enumerate(costs):
        sums = row.cumsum()
        entered = np.minimum(total[i, :-1], total[i, 1:]) - (sums - row)
        total[i + 1, 1:] = sums + np.minimum.accumulate(entered)
    path, i, j = [], num_rows, num_columns
    while i and j:
        path.append((i - 1, j - 1))
        left, up, both = total[i, j - 1], total[i - 1, j], total[i - 1, j - 1]
        if both < up and both < left:
            i, j = i - 1, j - 1
        elif up < left:
            i -= 1
        else:
            j -= 1
    rows, columns = np.array(path[::-1], np.int64).T
    return rows, columns
