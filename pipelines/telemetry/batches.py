"""Counts the requests of batches: those that run, and what became of the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from pipelines.telemetry.metric_names import BATCH_REQUESTS, BATCH_REQUESTS_RUNNING
from pipelines.telemetry.registry import labelled


class Ended(Protocol):
    @property
    def succeeded(self) -> bool: ...


@contextmanager
def running() -> Iterator[None]:
    """A request of a batch is in flight, or waits to be sent again."""
    gauge = labelled(BATCH_REQUESTS_RUNNING)
    gauge.inc()
    try:
        yield
    finally:
        gauge.dec()


def ended(results: Sequence[Ended]) -> None:
    """Requests of batches have results that are stored."""
    for state, count in (
        ("completed", sum(each.succeeded for each in results)),
        ("failed", sum(not each.succeeded for each in results)),
    ):
        if count:
            labelled(BATCH_REQUESTS, state).inc(count)
