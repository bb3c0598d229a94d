"""Collects values for one Prometheus histogram and adds them together: each alone would take microseconds."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any


class HistogramBuffer:
    """The values not yet added to a labelled `histogram` of prometheus_client.  Belongs to one thread."""

    def __init__(self, histogram: Any) -> None:
        self._histogram = histogram
        self._bounds = histogram._upper_bounds
        self._clear()

    def add(self, value: float, times: int = 1) -> None:
        """One more value, or the same one several times; `flush` writes it."""
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times

    def flush(self) -> None:
        """Add all values to the histogram."""
        if not any(self._counts):
            return
        for bucket, count in zip(self._histogram._buckets, self._counts, strict=True):
            if count:
                bucket.inc(count)
        self._histogram._sum.inc(self._sum)
        self._clear()

    def _clear(self) -> None:
        self._counts = [0] * len(self._bounds)
        self._sum = 0.0
