"""What work in a thread asks between its parts: whether its result is still wanted, and whether it may take
long.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pipelines.base.errors import BraidError

_is_short: ContextVar[bool] = ContextVar("is_short", default=False)
_cancelled: ContextVar[threading.Event | None] = ContextVar("cancelled", default=None)


class ClientGone(Exception):
    """The client disconnected; no reply is needed."""


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


class TakesLong(BraidError):
    """Work that was taken for short is not: it begins again where long work is done."""

    def __init__(self) -> None:
        super().__init__("this takes longer than other requests may wait for")


class ShortWork:
    """Work inside must be short: others wait for its thread.  No generator: each request enters one."""

    def __enter__(self) -> None:
        self._token = _is_short.set(True)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        _is_short.reset(self._token)


def need_long_work() -> None:
    """Raise TakesLong where the thread is for short work."""
    if _is_short.get():
        raise TakesLong
