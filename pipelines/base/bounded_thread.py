"""Work that may never end, in a thread of its own, which is waited for as long as a limit says."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

from pipelines.base.cancellation import check_cancelled
from pipelines.base.errors import Unavailable

T = TypeVar("T")

TICK_S = 0.05
"""The seconds between two looks at whether the result is still wanted."""
AGAIN_S = 1.0
"""The seconds between two tries to end a thread that took too long."""
MAX_LATE = 16
"""Threads that took too long and may still run at a time: one that waits inside a library cannot be ended."""


class TookTooLong(Exception):
    """The work did not end within its limit; `stack` is where it was."""

    def __init__(self, limit_s: float, stack: traceback.StackSummary) -> None:
        super().__init__(f"it did not end within {limit_s:g} s")
        self.stack = stack


class _Stop(SystemExit):
    """Ends Python code whose result is not wanted any more; a thread that it ends prints nothing."""


_late: set[threading.Thread] = set()


def run_within(limit_s: float, work: Callable[[], T]) -> T:
    """What `work` returns.  Raises what it raises, TookTooLong, WorkCancelled where the client left, and
    Unavailable while too many of those that took too long have not ended.
    """
    _check_late()
    outcome: list[tuple[Any, BaseException | None]] = []
    thread = threading.Thread(
        target=copy_context().run, args=(_fill, outcome, work), name="bounded", daemon=True
    )
    thread.start()
    try:
        _wait(thread, limit_s)
    except BaseException:
        _stop(thread)
        raise
    value, error = outcome[0]
    if error is not None:
        raise error
    result: T = value
    return result


def _fill(outcome: list[tuple[Any, BaseException | None]], work: Callable[[], Any]) -> None:
    try:
        outcome.append((work(), None))
    except BaseException as error:  # the one that waits raises it
        outcome.append((None, error))


def _wait(thread: threading.Thread, limit_s: float) -> None:
    ends_s = time.monotonic() + limit_s
    while thread.is_alive():
        check_cancelled()
        if time.monotonic() > ends_s:
            raise TookTooLong(limit_s, _stack(thread))
        thread.join(TICK_S)


def _stack(thread: threading.Thread) -> traceback.StackSummary:
    frame = sys._current_frames().get(thread.ident or 0)
    return traceback.StackSummary() if frame is None else traceback.extract_stack(frame)


def _check_late() -> None:
    if sum(thread.is_alive() for thread in list(_late)) >= MAX_LATE:
        raise Unavailable(f"{MAX_LATE} runs of code of models took too long and have not ended")


def _stop(thread: threading.Thread) -> None:
    """Python code ends at its next line; what waits inside a library ends when it returns.

    A `__del__` or a callback of the garbage collector that happens to run swallows the exception, so it is
    raised again until the thread has ended.
    """
    if not thread.is_alive():
        _late.discard(thread)
        return
    _late.add(thread)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_Stop))
    again = threading.Timer(AGAIN_S, _stop, [thread])
    again.daemon = True
    again.start()
