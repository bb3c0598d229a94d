"""Counts that are written a few times a second: no client waits for them, and many are one write.

Belongs to the thread of the worker's event loop.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from functools import cache
from typing import Any

from pipelines.telemetry.histogram import HistogramBuffer
from pipelines.telemetry.registry import labelled

_late: deque[Callable[[], None]] = deque()
_unflushed: set[HistogramBuffer] = set()
_gained: defaultdict[Any, float] = defaultdict(float)


def defer(write: Callable[[], None]) -> None:
    """Have the next `catch_up` call `write`."""
    _late.append(write)


def catch_up() -> None:
    """Write what was deferred.  Call it periodically, before metrics are rendered, and at the end."""
    while _late:
        _late.popleft()()
    while _gained:
        value, amount = _gained.popitem()
        value.inc(amount)
    while _unflushed:
        _unflushed.pop().flush()


def gain(value: Any, amount: float = 1) -> None:
    """A value of the library, one of a counter or a summary, becomes larger by `amount`."""
    _gained[value] += amount


def histogram(name: str, *labels: str) -> HistogramBuffer:
    """A histogram to which values are added, for `catch_up`."""
    buffer = buffered(name, *labels)
    _unflushed.add(buffer)
    return buffer


@cache
def buffered(name: str, *labels: str) -> HistogramBuffer:
    """The one buffer of a histogram; its owner flushes it."""
    return HistogramBuffer(labelled(name, *labels))
