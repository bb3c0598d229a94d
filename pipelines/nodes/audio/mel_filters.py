"""Triangular filters on Slaney's mel scale, as Whisper's features use them."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

HZ_PER_MEL, KNEE_HZ, LOG_STEP = 200 / 3, 1000.0, np.log(6.4) / 27
"""Slaney's scale is linear up to the knee and logarithmic above it."""
Doubles = NDArray[np.float64]


@cache
def mel_filters(num_mels: int, num_bins: int, rate: int) -> Doubles:
    """float64[num_bins, num_mels]: each column is a triangle of unit area over the bins of a spectrum."""
    edges = _to_hz(np.linspace(0, _to_mel(np.array(rate / 2)), num_mels + 2))
    bins = np.linspace(0, rate / 2, num_bins)
    slopes, widths = edges[None] - bins[:, None], np.diff(edges)
    rising, falling = -slopes[:, :-2] / widths[:-1], slopes[:, 2:] / widths[1:]
    filters: Doubles = np.maximum(0, np.minimum(rising, falling)) * (2.0 / (edges[2:] - edges[:-2]))
    return filters


def _to_mel(hz: Doubles) -> Doubles:
    above = KNEE_HZ / HZ_PER_MEL + np.log(np.maximum(hz, KNEE_HZ) / KNEE_HZ) / LOG_STEP
    return np.where(hz < KNEE_HZ, hz / HZ_PER_MEL, above)


def _to_hz(mel: Doubles) -> Doubles:
    knee = KNEE_HZ / HZ_PER_MEL
    return np.where(mel < knee, mel * HZ_PER_MEL, KNEE_HZ * np.exp(LOG_STEP * (mel - knee)))
