"""How far the work is that a load of a model may begin with: to convert a large file takes minutes.

One thread of a process loads models, so what it does is known to the process.  `doing` says what it is,
`report` how far it is, and `watched` has a function that shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

Hears = Callable[[str, float], None]
"""Takes what is done now, and the share of it that is done, from 0 to 1."""
APART_S = 0.5
"""Seconds between two calls of the function that hears of it."""


class _Now:
    """What this process does: `what`, who hears of it, and from when on that may be again."""

    what = ""
    hears: Hears | None = None
    due_s = 0.0


@contextmanager
def watched(hears: Hears) -> Iterator[None]:
    """Call `hears` while the body runs: at most once in `APART_S`, and at the end of each thing."""
    before, _Now.hears, _Now.due_s = _Now.hears, hears, 0.0
    try:
        yield
    finally:
        _Now.hears = before


@contextmanager
def doing(what: str) -> Iterator[None]:
    """The body does this."""
    before, _Now.what = _Now.what, what
    try:
        yield
    finally:
        _Now.what = before


def report(share: float) -> None:
    """What is done now is so far."""
    now_s = monotonic()
    if _Now.hears is not None and _Now.what and (now_s >= _Now.due_s or share >= 1):
        _Now.due_s = now_s + APART_S
        _Now.hears(_Now.what, share)
