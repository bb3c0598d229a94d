"""Measures the difference of two arrays and compares it with a limit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PEAK = 16.0
"""Allowed error of a single number, in multiples of the allowed root mean square error."""


class Distance(NamedTuple):
    """Errors relative to the root mean square of the expected values."""

    rms: float
    worst: float
    at: tuple[int, ...]

    def within(self, limit: float) -> bool:
        """Whether the error is at most `limit` and no number is off by more than `PEAK` times it."""
        return self.rms <= limit and self.worst <= PEAK * limit

    def __str__(self) -> str:
        return f"error {self.rms:.2g} of its size, worst {self.worst:.2g} at {self.at}"


def distance(given: NDArray[np.floating], expected: NDArray[np.floating]) -> Distance:
    """The distance of two arrays; unexpected NaN and infinity count as infinite errors."""
    size = float(np.sqrt(np.mean(np.square(expected, dtype=np.float64)))) or 1.0
    error = np.abs(given.astype(np.float64) - expected)
    error[np.isnan(error)] = np.inf
    at = np.unravel_index(int(error.argmax()), error.shape) if error.size else ()
    rms = float(np.sqrt(np.mean(np.square(error)))) if error.size else 0.0
    return Distance(rms / size, float(error.max(initial=0)) / size, tuple(int(one) for one in at))
