"""Reads the blocks of types of one to three bits whose codes are places in a grid of points.

A point is 8 weights, or 4; signs and scales stand beside it.  Weights are whole numbers times a scale, so
they become codes of eight bits, eight of them in a word.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.gguf.blocks import Bytes, Floats, Parts, Words, each_byte, half, in_blocks, unpack
from pipelines.gguf.grids import IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, words_of

_SIGNS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=-1, bitorder="little")
FLIPS: Words = (_SIGNS * np.uint8(255)).view("<u8")[:, 0]
"""Byte with the signs of eight weights → word that is 255 where the sign is minus."""
EVEN_FLIPS = FLIPS[[number | number.bit_count() % 2 << 7 for number in range(128)]]
"""Seven signs → such a word; the eighth sign makes the number of minuses even."""
SEVENS = np.array([0, 7, 14, 21], np.uint32)
"""Where the signs of four points begin in 32 bits, of which the last four are a scale."""
THREES = np.array([0, 3, 6, 9], np.uint16)
IQ1_SHIFTS = np.array([each_byte(128 - 8 + 1), each_byte(128 - 8 - 1)])
"""What makes codes of the grid's numbers: weights are -1, 0 or 1 and an eighth more or, by a bit, less."""


def read_iq2_xxs(raw: Bytes) -> Parts:
    """Blocks of 256 → 8 of 32."""
    fields = _view(raw, 2, 64, "<u4").reshape(*raw.shape[:-1], 8, 2)
    places, tails = np.ascontiguousarray(fields[..., 0]).view(np.uint8), fields[..., 1]
    return _signed(words_of(IQ2_XXS)[places], _tail_flips(tails), _halved(raw, tails >> 28, 0.25), 32)


def read_iq2_xs(raw: Bytes) -> Parts:
    """Blocks of 256 → 16 of 16: places of 9 bits with 7 of signs, scales of 4 bits."""
    fields = _view(raw, 2, 64, "<u2")
    scales = _halved(raw, unpack(raw, 66, 8, 4, 1), 0.25)
    return _signed(words_of(IQ2_XS)[fields & 511], EVEN_FLIPS[fields >> 9], scales, 16)


def read_iq2_s(raw: Bytes) -> Parts:
    """Blocks of 256 → 16 of 16: lower bytes of the places, signs, two upper bits, scales of 4 bits."""
    places = raw[..., 2:34] | unpack(raw, 66, 8, 2, 1).astype(np.uint16) << 8
    scales = _halved(raw, unpack(raw, 74, 8, 4, 1), 0.25)
    return _signed(words_of(IQ2_S)[places], FLIPS[raw[..., 34:66]], scales, 16)


def read_iq3_xxs(raw: Bytes) -> Parts:
    """Blocks of 256 → 8 of 32, of points of 4."""
    tails = _view(raw, 66, 32, "<u4")
    points = words_of(IQ3_XXS)[raw[..., 2:66]].view("<u8")
    return _signed(points, _tail_flips(tails), _halved(raw, tails >> 28, 0.5), 32)


def read_iq3_s(raw: Bytes) -> Parts:
    """Blocks of 256 → 8 of 32, of points of 4: lower bytes of the places, upper bits, signs, scales."""
    places = raw[..., 2:66] | unpack(raw, 66, 8, 1, 1).astype(np.uint16) << 8
    scales = half(raw, 0) * (2 * unpack(raw, 106, 4, 4, 1) + np.uint8(1))
    return _signed(words_of(IQ3_S)[places].view("<u8"), FLIPS[raw[..., 74:106]], scales, 32)


def read_iq1_s(raw: Bytes) -> Parts:
    """Blocks of 256 → 8 of 32: lower bytes of the places, and 16 bits for four of them."""
    fields = _view(raw, 34, 16, "<u2")
    places = raw[..., 2:34] | _flat(fields[..., None] >> THREES & 7) << 8
    shifts = np.repeat(fields >> 15, 4, -1)
    return _ternary(places, shifts, half(raw, 0) * (2 * (fields >> 12 & 7) + 1), 32)


def read_iq1_m(raw: Bytes) -> Parts:
    """Blocks of 256 → 16 of 16; the scales' four upper parts together are the float16 of the block."""
    fields, upper = _view(raw, 48, 8, "<u2"), unpack(raw, 32, 16, 4, 1)
    places = raw[..., :32] | (upper & 7).astype(np.uint16) << 8
    tops = fields >> 12 << np.array([0, 4, 8, 12], np.uint16)
    scale = np.bitwise_or.reduce(tops, -1, keepdims=True).view(np.float16).astype(np.float32)
    return _ternary(places, upper >> 3, scale * (2 * _flat(fields[..., None] >> THREES & 7) + 1), 16)


def _signed(points: Words, flips: Words, scales: Floats, block: int) -> Parts:
    """Magnitudes with their signs: the two's complement in each byte, then 128 more."""
    codes = ((points ^ flips) + (flips & each_byte(1))) ^ each_byte(128)
    return in_blocks(codes.view(np.uint8), scales, block)


def _ternary(places: NDArray[Any], shifts: NDArray[Any], scales: Floats, block: int) -> Parts:
    codes = words_of(IQ1)[places] + IQ1_SHIFTS[shifts]
    return in_blocks(codes.view(np.uint8), scales * np.float32(1 / 8), block)


def _halved(raw: Bytes, scales: NDArray[Any], factor: float) -> Floats:
    """Scales of 4 bits and a half, times the float16 of the block and `factor`."""
    return half(raw, 0) * ((scales.astype(np.float32) + np.float32(0.5)) * np.float32(factor))


def _tail_flips(tails: NDArray[np.uint32]) -> Words:
    flips: Words = EVEN_FLIPS[_flat(tails[..., None] >> SEVENS & 127)]
    return flips


def _view(raw: Bytes, at: int, size: int, form: str) -> NDArray[Any]:
    return np.ascontiguousarray(raw[..., at : at + size]).view(form)


def _flat(values: NDArray[Any]) -> NDArray[Any]:
    return values.reshape(*values.shape[:-2], -1)
