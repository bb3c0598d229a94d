"""How many requests a worker serves at once.  Knows nothing of what they ask."""

from __future__ import annotations

from collections.abc import Callable

from pipelines.errors import Overloaded


class Admission:
    """0 <= `num_inside` <= `limit`."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.num_inside = 0

    def enter(self) -> Callable[[], None]:
        """A permit: call it once to give it back.  Raises Overloaded when all are out."""
        if self.num_inside >= self.limit:
            raise Overloaded(
                f"this worker serves {self.limit} requests at once, and all places are taken; try again soon"
            )
        self.num_inside += 1
        return self._leave

    def _leave(self) -> None:
        self.num_inside -= 1
