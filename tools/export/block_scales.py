"""Rounds weights to blocks of 4 bits whose scales are searched: those with the least squared error."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
LEAST, MOST = -8, 7
"""Codes of 4 bits; stored, they are larger by 8."""
SHRUNK = np.linspace(0.75, 1.05, 8, dtype=np.float32)
"""Scales that are tried, as parts of the one that gives a block's largest weight the code LEAST."""
SLICE_WEIGHTS = 1 << 20
"""Weights that a thread rounds at once, so that memory is bounded however large a weight is."""


def round_to_4_bits(weight: NDArray[np.floating], block: int) -> tuple[NDArray[np.uint8], Floats]:
    """weight [outer, inner] → packed uint8[outer, blocks, block / 2] and scales [outer, blocks].

    The lower half of a byte is the first of its two codes.  The last block of a row is filled with zeros.
    """
    outer, inner = weight.shape
    blocks = -(-inner // block)
    packed = np.empty((outer, blocks, block // 2), np.uint8)
    scales = np.empty((outer, blocks), np.float32)

    def round_rows(rows: slice) -> None:
        values = np.zeros((len(packed[rows]), blocks * block), np.float32)
        values[:, :inner] = weight[rows]
        codes, scales[rows] = _searched(values.reshape(-1, blocks, block))
        stored = (codes - LEAST).astype(np.uint8)
        packed[rows] = stored[..., 0::2] | stored[..., 1::2] << np.uint8(4)

    step = max(SLICE_WEIGHTS // inner, 1)
    with ThreadPoolExecutor() as threads:
        list(threads.map(round_rows, (slice(begin, begin + step) for begin in range(0, outer, step))))
    return packed, scales


def _searched(values: Floats) -> tuple[Floats, Floats]:
    """The codes float32[..., block] and scales [...] of blocks of weights.

    With codes c, a block w is nearest to w·c / c·c times c, which leaves w·w - (w·c)² / c·c.
    """
    largest = np.take_along_axis(values, np.abs(values).argmax(-1)[..., None], -1)
    whole = np.where(largest == 0, 1, largest / LEAST).astype(np.float32)
    codes = np.zeros_like(values)
    scales, gain = np.zeros(values.shape[:-1], np.float32), np.full(values.shape[:-1], -1, np.float32)
    for part in SHRUNK:
        tried = np.clip(np.rint(values / (whole * part)), LEAST, MOST)
        along, size = (np.einsum("...i,...i->...", each, tried) for each in (values, tried))
        size = np.maximum(size, 1)  # a block of zeros
        better = along * along / size > gain
        gain = np.where(better, along * along / size, gain)
        scales = np.where(better, along / size, scales)
        codes[better] = tried[better]
    return codes, scales
