"""What a worker must end before its graceful deadline: streams that would outlive it.

Knows callbacks only; whoever owns long streams registers here, the worker calls.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger("gunicorn.error")

_callbacks: list[Callable[[], None]] = []


def before_deadline(callback: Callable[[], None]) -> None:
    """Call `callback`, on the event loop, a second before requests still in flight are cancelled."""
    _callbacks.append(callback)


def end_streams() -> None:
    """The deadline is near.  One callback's fault does not spare the others."""
    for callback in _callbacks:
        try:
            callback()
        except Exception:
            log.exception("a stream could not be ended")
