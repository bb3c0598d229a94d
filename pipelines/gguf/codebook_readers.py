"""Reads the blocks of types whose codes of four bits are places in a table of sixteen weights.

The weights are whole numbers times a scale, so they become codes of eight bits.
"""

from __future__ import annotations

import numpy as np

from pipelines.gguf.blocks import Bytes, Floats, Parts, half, in_blocks, join_pairs, unpack

FP4 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""Twice the numbers of one sign, two exponent bits and one bit of fraction (e2m1)."""
IQ4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
_BYTES = np.arange(256)


def _codes(weights: tuple[int, ...]) -> bytes:
    """The code of eight bits of each place, as a table for `bytes.translate`."""
    return bytes(weight + 128 for weight in weights) + bytes(256 - len(weights))


def _powers() -> Floats:
    """Half of the scale that a byte of MXFP4 is (e8m0): 2^(byte - 128)."""
    return np.ldexp(np.float32(1), _BYTES - 128)


def _small_floats() -> Floats:
    """Half of the scale that a byte of NVFP4 is: four exponent bits, three of fraction (ue4m3)."""
    exponents, fractions = _BYTES >> 3 & 15, _BYTES & 7
    scales = np.where(exponents == 0, fractions * 2.0**-9, (8 + fractions) * 2.0 ** (exponents - 10))
    scales[[0, 0x7F]] = 0  # 0x7F is what is no number
    return (scales / 2).astype(np.float32)


FP4_CODES, IQ4_CODES = _codes(FP4), _codes(IQ4)
POWERS, SMALL_FLOATS = _powers(), _small_floats()


def read_mxfp4(raw: Bytes) -> Parts:
    return in_blocks(_looked_up(FP4_CODES, unpack(raw, 1, 16, 4, 16)), POWERS[raw[..., 0]], 32)


def read_mxfp4_places(raw: Bytes) -> Parts:
    """The places in the table of weights as codes of 4 bits, and whole scales."""
    places = in_blocks(unpack(raw, 1, 16, 4, 16), POWERS[raw[..., 0]] * np.float32(2), 32)
    return places._replace(codes=join_pairs(places.codes))


def read_nvfp4(raw: Bytes) -> Parts:
    """Blocks of 64 → 4 of 16."""
    return in_blocks(_looked_up(FP4_CODES, unpack(raw, 4, 32, 4, 8)), SMALL_FLOATS[raw[..., :4]], 16)


def read_iq4_nl(raw: Bytes) -> Parts:
    return in_blocks(_looked_up(IQ4_CODES, unpack(raw, 2, 16, 4, 16)), half(raw, 0), 32)


def read_iq4_xs(raw: Bytes) -> Parts:
    """Blocks of 256 → 8 of 32, with scales of 6 bits: first their upper 2, then their lower 4."""
    scales = unpack(raw, 4, 4, 4, 1) | unpack(raw, 2, 2, 2, 1) << np.uint8(4)
    codes = _looked_up(IQ4_CODES, unpack(raw, 8, 128, 4, 16))
    return in_blocks(codes, half(raw, 0) * (scales.view(np.int8) - np.int8(32)), 32)


def _looked_up(table: bytes, places: Bytes) -> Bytes:
    """numpy takes several times as long as `bytes.translate`."""
    return np.frombuffer(places.tobytes().translate(table), np.uint8).reshape(places.shape)
