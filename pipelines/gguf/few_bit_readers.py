"""Reads the blocks of types of one to three bits whose weights are evenly spaced, as codes of four bits."""

from __future__ import annotations

import numpy as np

from pipelines.gguf.blocks import Bytes, Parts, half, join_pairs, unpack, with_least

MIDDLE = 8
"""The zero point of codes of 4 bits."""
DIGITS = np.arange(256, dtype=np.uint8) * 3 ** np.arange(5, dtype=np.uint8)[:, None]
DIGITS = (DIGITS * np.uint16(3) >> 8).astype(np.uint8)
"""A byte of TQ1_0 is a fraction of 256: `DIGITS[n, byte]` is its digit n after the point, to the base 3."""


def read_q1_0(raw: Bytes) -> Parts:
    """Each bit says whether the weight is the scale or minus it."""
    bits = np.unpackbits(raw[..., 2:], axis=-1, bitorder="little")
    return _even(2 * bits + np.uint8(MIDDLE - 1), raw, 0)


def read_q2_0(raw: Bytes) -> Parts:
    return _even(unpack(raw, 2, 16, 2, 1) + np.uint8(MIDDLE - 1), raw, 0)


def read_tq1_0(raw: Bytes) -> Parts:
    """48 bytes of five digits each, the first digits of 32 or of 16 bytes together, and 4 bytes of four."""
    runs = ((0, 32, 5), (32, 48, 5), (48, 52, 4))
    trits = [DIGITS[number][raw[..., begin:end]] for begin, end, count in runs for number in range(count)]
    return _even(np.concatenate(trits, -1) + np.uint8(MIDDLE - 1), raw, 52)


def read_tq2_0(raw: Bytes) -> Parts:
    return _even(unpack(raw, 0, 64, 2, 32) + np.uint8(MIDDLE - 1), raw, 64)


def read_q2_k(raw: Bytes) -> Parts:
    """Blocks of 256 → 16 of 16, with scales and minima of 4 bits."""
    scales, minima = (half(raw, at) * unpack(raw, 0, 16, 4, 16)[..., part] for at, part in _HALVES)
    flat = (len(raw), raw.shape[1] * 16)
    codes = join_pairs(unpack(raw, 16, 64, 2, 32)).reshape(*flat, 8)
    return with_least(codes, scales.reshape(flat), -minima.reshape(flat))


_HALVES = ((80, slice(16)), (82, slice(16, 32)))
"""Scales and minima of Q2_K: where their float16 is, and which of the nibbles they are."""


def read_q3_k(raw: Bytes) -> Parts:
    """Blocks of 256 → 16 of 16: 32 bytes of third bits, 64 of lower ones, 12 with scales of 6 bits."""
    codes = unpack(raw, 32, 64, 2, 32) | unpack(raw, 0, 32, 1, 32) << np.uint8(2)
    scales = unpack(raw, 96, 8, 4, 8) | unpack(raw, 104, 4, 2, 4) << np.uint8(4)
    flat = (len(raw), raw.shape[1] * 16)
    joined = join_pairs(codes + np.uint8(MIDDLE - 4)).reshape(*flat, 8)
    return Parts(joined, (half(raw, 108) * (scales.view(np.int8) - np.int8(32))).reshape(flat))


def _even(codes: Bytes, raw: Bytes, scale_at: int) -> Parts:
    """Blocks with one scale."""
    return Parts(join_pairs(codes), half(raw, scale_at)[..., 0])
