"""Limits how many requests a worker serves at the same time."""

from __future__ import annotations

from collections.abc import Callable

from pipelines.errors import Overloaded


class Admission:
    """0 <= `num_inside` <= `limit`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.num_inside = 0

    def enter(self) -> Callable[[], None]:
        """Admit a request; call the result once when it ends.  Raises Overloaded at the limit."""
        if self.num_inside >= self.limit:
            raise Overloaded(
                f"this worker already serves {self.limit} requests, its max_concurrency; try again soon"
            )
        self.num_inside += 1
        return self._release

    def _release(self) -> None:
        self.num_inside -= 1
