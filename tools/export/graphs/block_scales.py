"""Rounds weights to blocks of 4 bits whose scales are searched for the least squared error of outputs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
LEAST, MOST = -8, 7
"""Codes of 4 bits; stored, they are larger by 8."""
SHRUNK = np.linspace(0.75, 1.05, 8, dtype=np.float32)
"""Scales that are tried, as parts of the one that gives a block's largest weight the code LEAST."""
SLICE_WEIGHTS = 1 << 20
"""Weights that a thread rounds at once, so that memory is bounded however large a weight is."""


LEAST_SIZE = 1e-3
"""Numbers count for at least this part of the median one: a short text does not show how large all can be."""


class Rounded(NamedTuple):
    """`packed` uint8[outer, blocks, block / 2], whose bytes hold first the code in their lower half; `scales`
    float32[outer, blocks]; `lost`: the expected squared error of outputs, as a part of their square.
    """

    packed: NDArray[np.uint8]
    scales: Floats
    lost: float


def round_to_4_bits(weight: NDArray[np.floating], block: int, squares: Floats | None = None) -> Rounded:
    """The blocks of a weight [outer, inner]; the last one of a row is filled with zeros.

    `squares` float32[inner]: how large the numbers are that meet each column; None: all alike.
    """
    outer, inner = weight.shape
    blocks = -(-inner // block)
    packed = np.empty((outer, blocks, block // 2), np.uint8)
    scales = np.empty((outer, blocks), np.float32)
    counts = np.ones(blocks * block, np.float32)
    if squares is not None:
        middle = np.median(squares) or 1
        counts[:inner] = np.maximum(squares / middle, LEAST_SIZE)
    counts = counts.reshape(blocks, block)

    def round_rows(rows: slice) -> tuple[float, float]:
        values = np.zeros((len(packed[rows]), blocks * block), np.float32)
        values[:, :inner] = weight[rows]
        values = values.reshape(-1, blocks, block)
        codes, scales[rows], held = _searched(values, counts)
        stored = (codes - LEAST).astype(np.uint8)
        packed[rows] = stored[..., 0::2] | stored[..., 1::2] << np.uint8(4)
        return held, float(np.vdot(values * counts, values))

    step = max(SLICE_WEIGHTS // inner, 1)
    with ThreadPoolExecutor() as threads:
        parts = list(threads.map(round_rows, (slice(begin, begin + step) for begin in range(0, outer, step))))
    held, whole = map(sum, zip(*parts, strict=True))
    return Rounded(packed, scales, 1 - held / whole if whole else 0.0)


def _searched(values: Floats, counts: Floats) -> tuple[Floats, Floats, float]:
    """The codes float32[..., block] and scales [...] of blocks of weights, and what they hold of the square.

    With codes c, a block w is nearest to w·c / c·c times c, which leaves w·w - (w·c)² / c·c; each summand of
    these products of vectors has the weight of its column in `counts`.
    """
    largest = np.take_along_axis(values, np.abs(values).argmax(-1)[..., None], -1)
    whole = np.where(largest == 0, 1, largest / LEAST).astype(np.float32)
    codes = np.zeros_like(values)
    scales, gain = np.zeros(values.shape[:-1], np.float32), np.full(values.shape[:-1], -1, np.float32)
    for part in SHRUNK:
        tried = np.clip(np.rint(values / (whole * part)), LEAST, MOST)
        counted = tried * counts
        along, size = (np.einsum("...i,...i->...", array, counted) for array in (values, tried))
        size = np.where(size == 0, 1, size)  # a block of zeros
        better = along * along / size > gain
        gain = np.where(better, along * along / size, gain)
        scales = np.where(better, along / size, scales)
        codes[better] = tried[better]
    return codes, scales, float(gain.sum(dtype=np.float64))
