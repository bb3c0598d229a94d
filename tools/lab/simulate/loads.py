"""How many requests each engine has, without a look at all engines for each request."""

from __future__ import annotations

from bisect import bisect_left, insort


class Loads:
    """`in_flight[engine]` are the requests that were sent to it and have not ended."""

    def __init__(self, num_engines: int) -> None:
        self.in_flight = [0] * num_engines
        self._by_load = {0: list(range(num_engines))}

    def change(self, engine: int, by: int) -> None:
        """An engine has `by` requests more."""
        before = self.in_flight[engine]
        equals = self._by_load[before]
        del equals[bisect_left(equals, engine)]
        if not equals:
            del self._by_load[before]
        self.in_flight[engine] += by
        insort(self._by_load.setdefault(before + by, []), engine)

    @property
    def least(self) -> int:
        """The requests of the least busy engines."""
        return min(self._by_load)

    @property
    def least_busy(self) -> list[int]:
        """The engines that have as few, by their numbers; not the caller's own."""
        return self._by_load[self.least]
