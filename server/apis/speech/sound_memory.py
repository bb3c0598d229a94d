"""Bounds the memory of the recordings that a worker holds as samples while models read them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pipelines.base.errors import Overloaded

MAX_LONGEST = 8
"""Recordings of the longest kind that may be held at a time; of shorter ones as many more."""
RETRY_AFTER_S = 2


class SoundMemory:
    """A few compressed bytes become many samples, so permits alone bound no memory."""

    def __init__(self, longest_bytes: int) -> None:
        self._max_bytes = MAX_LONGEST * longest_bytes
        self.num_bytes = 0

    def hold(self, num_bytes: int) -> Callable[[], None]:
        """Count a recording; what is returned uncounts it.  Raises Overloaded where there is no room."""
        if self.num_bytes and self.num_bytes + num_bytes > self._max_bytes:
            raise Overloaded(
                f"recordings of {self.num_bytes >> 20} MB are in this worker's models; try again soon",
                RETRY_AFTER_S,
            )
        self.num_bytes += num_bytes
        return partial(self._uncount, num_bytes)

    def _uncount(self, num_bytes: int) -> None:
        self.num_bytes -= num_bytes
