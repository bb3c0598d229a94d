"""Limits how many requests a worker serves at the same time, and how many of them are one tenant's.

A tenant may hold places up to a multiple of those that are free (Choudhury and Hahne, "Dynamic queue length
thresholds for shared-memory packet switches", 1998): one tenant alone gets nearly all places, several greedy
ones get less each, and there is always a place for the next.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

from pipelines.base.errors import Overloaded


def may_take(share: float, held: int, free: int, more: int = 1) -> bool:
    """Whether who holds `held` of a pool may have `more` of the `free` rest; alone it gets `share` of all."""
    multiple = round(share / (1 - share), 9) if share < 1 else math.inf
    return more <= free and (free <= 0 or held < multiple * free)


class Admission:
    """0 <= `num_inside` <= `limit`; a tenant alone holds at most `share` of `limit`, 0 < share <= 1.

    `does` and `setting` are for error texts: what the worker does with those inside, and what `limit` is.
    """

    def __init__(
        self,
        limit: int,
        share: float = 1.0,
        does: str = "serves {} requests",
        setting: str = "max_concurrency",
    ) -> None:
        self.limit = limit
        self.num_inside = 0
        self._share = share
        self._does = does
        self._setting = setting
        self._held: Counter[str] = Counter()

    def enter(self, tenant: str = "") -> Callable[[], None]:
        """Admit a request; call the result once when it ends.

        Raises Overloaded at the limit, and where the tenant holds its share of the places.
        """
        num_free, held = self.limit - self.num_inside, self._held[tenant]
        if num_free <= 0:
            raise Overloaded(
                f"this worker already {self._does.format(self.limit)}, its {self._setting}; try again soon"
            )
        if not may_take(self._share, held, num_free):
            raise Overloaded(
                f"this worker already {self._does.format(held)} of this API key or session, its share of the "
                f"{self.limit} places ({self._setting}, tenant_share {self._share:g}); try again soon"
            )
        self.num_inside += 1
        self._held[tenant] += 1

        def leave() -> None:
            self.num_inside -= 1
            self._held[tenant] -= 1
            if not self._held[tenant]:
                del self._held[tenant]

        return leave
