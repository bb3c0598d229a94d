"""G.711, the 8 bits a sample of telephones: µ-law and A-law, each a table of 256 numbers (ITU-T G.711)."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Pcm = NDArray[np.int16]
Codes = NDArray[np.uint8]
ULAW_BIAS, ULAW_CLIP = 33, 8_159
"""What µ-law adds to a sample and cuts it to; its samples have 14 bits, those of A-law 13."""


def from_ulaw(codes: Codes) -> Pcm:
    """The int16 samples of µ-law's codes, of the same shape."""
    return _decoded_ulaw()[codes]


def from_alaw(codes: Codes) -> Pcm:
    """The int16 samples of A-law's codes, of the same shape."""
    return _decoded_alaw()[codes]


def to_ulaw(samples: Pcm) -> Codes:
    """The µ-law code of each int16 sample."""
    return _encoded_ulaw()[samples.view(np.uint16)]


def to_alaw(samples: Pcm) -> Codes:
    """The A-law code of each int16 sample."""
    return _encoded_alaw()[samples.view(np.uint16)]


@cache
def _decoded_ulaw() -> Pcm:
    codes = ~np.arange(256, dtype=np.uint8)
    exponents, steps = (codes >> 4 & 7).astype(np.int32), (codes & 15).astype(np.int32)
    bias = 4 * ULAW_BIAS
    values = (((steps << 3) + bias) << exponents) - bias
    return np.where(codes & 128, -values, values).astype(np.int16)


@cache
def _decoded_alaw() -> Pcm:
    codes = np.arange(256, dtype=np.uint8) ^ 0x55
    exponents, steps = (codes >> 4 & 7).astype(np.int32), (codes & 15).astype(np.int32)
    linear = (steps << 4) + 8
    values = np.where(exponents == 0, linear, (linear + 256) << np.maximum(exponents - 1, 0))
    return np.where(codes & 128, values, -values).astype(np.int16)


def _all_samples() -> NDArray[np.int32]:
    """Every sample, in the order of its two bytes as an unsigned number."""
    return np.arange(1 << 16, dtype=np.uint16).view(np.int16).astype(np.int32)


def _segments(values: NDArray[np.int32], first: int) -> NDArray[np.int32]:
    """The segment of each value: 0 up to `first`, and one more for each doubling."""
    ends = np.array([((first + 1) << number) - 1 for number in range(8)])
    return np.searchsorted(ends, values).astype(np.int32)


@cache
def _encoded_ulaw() -> Codes:
    values = _all_samples() >> 2
    signs = np.where(values < 0, 0x7F, 0xFF)
    values = np.minimum(np.abs(values), ULAW_CLIP) + ULAW_BIAS
    segments = _segments(values, 0x3F)
    codes = np.where(segments > 7, 0x7F, segments << 4 | (values >> segments + 1 & 15))
    return (codes ^ signs).astype(np.uint8)


@cache
def _encoded_alaw() -> Codes:
    values = _all_samples() >> 3
    signs = np.where(values < 0, 0x55, 0xD5)
    values = np.where(values < 0, -values - 1, values)
    segments = _segments(values, 0x1F)
    codes = segments << 4 | (values >> np.maximum(segments, 1) & 15)
    return (codes ^ signs).astype(np.uint8)
