"""Whether the result of work in a thread is still wanted: long work asks between its parts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pipelines.errors import BraidError

_cancelled: ContextVar[threading.Event | None] = ContextVar("cancelled", default=None)


class WorkCancelled(BraidError):
    """No client receives this error."""

    def __init__(self) -> None:
        super().__init__("the client disconnected")


@contextmanager
def cancelled_by(event: threading.Event) -> Iterator[None]:
    """Work inside is cancelled once the event is set."""
    token = _cancelled.set(event)
    try:
        yield
    finally:
        _cancelled.reset(token)


def check_cancelled() -> None:
    """Raise WorkCancelled where the result of the work that this thread does has no receiver."""
    event = _cancelled.get()
    if event is not None and event.is_set():
        raise WorkCancelled
