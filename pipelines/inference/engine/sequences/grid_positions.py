"""Positions of prompts whose images are grids of tokens, for models that turn each token by three numbers
(M-RoPE): its time, its row and its column.

All three are the same number for text.  The tokens of an image have the position at which it begins as their
time, and their row and column in it are added to that.  The text after it goes on from the largest number, so
that an image of rows × columns tokens takes max(rows, columns) positions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
AXES = 3


class GridPositions:
    """The positions of a prompt with images at the tokens `starts`; `grids` are (rows, columns) of tokens."""

    def __init__(self, starts: Sequence[int], grids: Sequence[tuple[int, int]]) -> None:
        counts = np.array([rows * columns for rows, columns in grids], np.int64)
        spared = counts - [max(grid) for grid in grids]
        self._ends = np.array(starts, np.int64) + counts
        self._shifts = -np.concatenate([np.zeros(1, np.int64), np.cumsum(spared)])
        first = np.array(starts, np.int64) + self._shifts[:-1]
        self.axes: Ints = np.concatenate([_axes(*pair) for pair in zip(first, grids, strict=True)], axis=1)
        """int64[AXES, tokens of all images]."""

    @property
    def last_shift(self) -> int:
        """How far all tokens after the last image are shifted."""
        return int(self._shifts[-1])

    def shifts(self, start: int, end: int) -> Ints:
        """int64[end - start]: what is added to the places of these tokens, where they are text."""
        return self._shifts[np.searchsorted(self._ends, np.arange(start, end), side="right")]


def _axes(first: int, grid: tuple[int, int]) -> Ints:
    """int64[AXES, rows * columns]: time, row and column of the tokens of one image, row by row."""
    rows, columns = np.indices(grid).reshape(2, -1)
    return np.stack([np.zeros_like(rows), rows, columns]) + first
