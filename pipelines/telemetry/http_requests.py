"""Counts HTTP requests under the names and labels of prometheus-fastapi-instrumentator, as vLLM does."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

from pipelines.telemetry import deferred
from pipelines.telemetry.metric_names import IGNORED_FIELDS
from pipelines.telemetry.registry import labelled


def count_request(
    handler: str, method: str, status: int, request_bytes: int, response_bytes: int, seconds: float
) -> None:
    """A request ended; `handler` is the template of its path, one of few.

    Sizes are those of the headers, 0 where there is none, as of a stream.
    """
    for value, amount in zip(
        _values(handler, method, f"{status // 100}xx"),
        (1, 1, request_bytes, 1, response_bytes),
        strict=True,
    ):
        deferred.gain(value, amount)
    now_s = time.monotonic()
    deferred.histogram("http_request_duration_seconds", handler, method).add(seconds, now_s)
    deferred.histogram("http_request_duration_highr_seconds").add(seconds, now_s)


def count_ignored_fields(handler: str, num_fields: int) -> None:
    """A request had unknown fields, which were ignored."""
    labelled(IGNORED_FIELDS, handler).inc(num_fields)


@cache
def _values(handler: str, method: str, status: str) -> list[Any]:
    """The total, then number and sum of the sizes of requests and of responses."""
    sizes = [labelled(f"http_{which}_size_bytes", handler) for which in ("request", "response")]
    values = [value for summary in sizes for value in (summary._count, summary._sum)]
    return [labelled("http_requests", handler, method, status)._value, *values]
