"""Counts HTTP requests under the names and labels of prometheus-fastapi-instrumentator, as vLLM does."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from pipelines.telemetry import deferred
from pipelines.telemetry.metric_names import IGNORED_FIELDS
from pipelines.telemetry.registry import labelled


class _Ended(NamedTuple):
    request_bytes: int
    response_bytes: int
    seconds: float


_ended: defaultdict[tuple[str, str, str], list[_Ended]] = defaultdict(list)
"""By handler, method and class of status: the requests that are not written yet."""


def count_request(
    handler: str, method: str, status: int, request_bytes: int, response_bytes: int, seconds: float
) -> None:
    """A request ended; `handler` is the template of its path, one of few.

    Sizes are those of the headers, 0 where there is none, as of a stream.
    """
    if not _ended:
        deferred.defer(_write)
    _ended[handler, method, f"{status // 100}xx"].append(_Ended(request_bytes, response_bytes, seconds))


def count_ignored_fields(handler: str, num_fields: int) -> None:
    """A request had unknown fields, which were ignored."""
    labelled(IGNORED_FIELDS, handler).inc(num_fields)


def _write() -> None:
    while _ended:
        (handler, method, status), requests = _ended.popitem()
        labelled("http_requests", handler, method, status).inc(len(requests))
        for name, sizes in (
            ("http_request_size_bytes", [request.request_bytes for request in requests]),
            ("http_response_size_bytes", [request.response_bytes for request in requests]),
        ):
            summary = labelled(name, handler)
            summary._count.inc(len(sizes))
            summary._sum.inc(sum(sizes))
        by_path = deferred.histogram("http_request_duration_seconds", handler, method)
        overall = deferred.histogram("http_request_duration_highr_seconds")
        for request in requests:
            by_path.add(request.seconds)
            overall.add(request.seconds)
