"""Values for one histogram, gathered here and told to it together: telling each would take microseconds.

Knows how Prometheus' library keeps a histogram; knows nothing of what is measured.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

PERIOD_S = 0.5
"""While values come, the histogram is so far behind at most."""


class Observed:
    """What a labelled `histogram` of prometheus_client was not told yet.  Belongs to one thread."""

    def __init__(self, histogram: Any) -> None:
        self._histogram = histogram
        self._bounds = histogram._upper_bounds
        self._told_s = 0.0
        self._forget()

    def add(self, value: float, now_s: float, times: int = 1) -> None:
        """One more value, at `now_s` by any clock that is always the same; or as many times."""
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times
        if now_s - self._told_s >= PERIOD_S:
            self._told_s = now_s
            self.tell()

    def tell(self) -> None:
        """The histogram is told all."""
        if not any(self._counts):
            return
        for bucket, count in zip(self._histogram._buckets, self._counts, strict=True):
            if count:
                bucket.inc(count)
        self._histogram._sum.inc(self._sum)
        self._forget()

    def _forget(self) -> None:
        self._counts = [0] * len(self._bounds)
        self._sum = 0.0
