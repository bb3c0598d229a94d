"""What happens while a worker ends: it takes no more calls, and ends streams that would last too long."""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger("gunicorn.error")


class Drain:
    """The callbacks of one worker.  Belongs to its event loop."""

    def __init__(self) -> None:
        self._at_start: list[Callable[[], None]] = []
        self._callbacks: list[Callable[[], None]] = []

    def at_start(self, callback: Callable[[], None]) -> None:
        """Call `callback` as soon as the worker is to end."""
        self._at_start.append(callback)

    def begin(self) -> None:
        """The worker is to end."""
        for callback in self._at_start:
            callback()

    def before_deadline(self, callback: Callable[[], None]) -> None:
        """Call `callback` a second before requests still in flight are cancelled."""
        self._callbacks.append(callback)

    def end_streams(self) -> None:
        """The deadline is near: run every callback, also where one of them fails."""
        for callback in self._callbacks:
            try:
                callback()
            except Exception:
                log.exception("a stream could not be ended")
