"""Collects values for one Prometheus histogram and adds them together: each alone would take microseconds."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

PERIOD_S = 0.5
"""While values come, the histogram is at most this far behind."""


class HistogramBuffer:
    """The values not yet added to a labelled `histogram` of prometheus_client.  Belongs to one thread."""

    def __init__(self, histogram: Any) -> None:
        self._histogram = histogram
        self._bounds = histogram._upper_bounds
        self._flushed_s = 0.0
        self._clear()

    def add(self, value: float, now_s: float, times: int = 1) -> None:
        """One more value, at `now_s` by any clock that is always the same; or as many times."""
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times
        if now_s - self._flushed_s >= PERIOD_S:
            self._flushed_s = now_s
            self.flush()

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
