"""The bytes of a file that a client sent, for a library that decodes it: it reads them only while it may."""

from __future__ import annotations

import io
import time
from collections.abc import Callable

from pipelines.base.cancellation import check_cancelled
from pipelines.base.errors import RequestError


class WatchedFile(io.BytesIO):
    """Each read raises WorkCancelled once the client is gone, and `too_long` after `limit_s` seconds.

    `clock` counts them: `time.thread_time` those that this thread computed.
    """

    def __init__(
        self,
        data: bytes | memoryview,
        limit_s: float,
        too_long: RequestError,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(data)
        self._clock, self._ends_s, self._too_long = clock, clock() + limit_s, too_long

    def check(self) -> None:
        """For work between two reads.  Raises as a read does."""
        check_cancelled()
        if self._clock() > self._ends_s:
            raise self._too_long

    def read(self, size: int | None = -1, /) -> bytes:
        self.check()
        return super().read(size)
