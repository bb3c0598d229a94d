"""Ends the streams that would outlive a worker's graceful deadline."""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger("gunicorn.error")


class Drain:
    """The callbacks that end long streams of one worker.  Belongs to its event loop."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], None]] = []

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
