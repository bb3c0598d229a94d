"""Reports the progress of slow work at the beginning of a model's load, as of the conversion of a large file.

A process loads its models in one thread, so there is one current task in it.  `doing` names that task,
`report` notes how much of it is done, and `watched` passes both to a function that shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

ShowProgress = Callable[[str, float], None]
"""Takes the name of the current task, and the share of it that is done, from 0 to 1."""
MIN_INTERVAL_S = 0.5
"""Seconds between two calls of such a function, at least; the end of a task is always reported."""


class _Current:
    """The state of this process: the name of the current task, the function that shows its progress, and the
    time from which on the next report is passed to it.
    """

    task = ""
    show: ShowProgress | None = None
    due_s = 0.0


@contextmanager
def watched(show: ShowProgress) -> Iterator[None]:
    """Pass the reports of the body to `show`: one in `MIN_INTERVAL_S`, and the end of each task."""
    before, _Current.show, _Current.due_s = _Current.show, show, 0.0
    try:
        yield
    finally:
        _Current.show = before


@contextmanager
def doing(task: str) -> Iterator[None]:
    """Name what the body does, for reports in it."""
    before, _Current.task = _Current.task, task
    try:
        yield
    finally:
        _Current.task = before


def report(share: float) -> None:
    """Report the share of the current task that is done, from 0 to 1; nothing happens outside of a task."""
    now_s = monotonic()
    if _Current.show is not None and _Current.task and (now_s >= _Current.due_s or share >= 1):
        _Current.due_s = now_s + MIN_INTERVAL_S
        _Current.show(_Current.task, share)
