"""Makes records of the requests that have ended, a few times a second: no client waits for them."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipelines.telemetry.request_record import NUM_REQUESTS, ErrorRecord, RequestRecord
from pipelines.telemetry.request_trace import RequestTrace, Sampling

log = logging.getLogger("braid.server")

MAX_PATH_CHARS = 200
MAX_MESSAGE_CHARS = 300
MAX_WAITING = 10_000
"""Requests that have no record yet; further ones get none."""
_VALUE = re.compile(r", got .*?(?=; |$)", re.DOTALL)
"""What an error quotes of a request."""

Report = Callable[[Sequence[RequestRecord], Sequence[ErrorRecord]], None]


@dataclass(frozen=True, slots=True)
class EndedRequest:
    """A request that has ended: its record, and beside it what traces of it say.

    `started` is in Unix seconds.  `traceparent` is the header of that name; `sampling` that of the first
    call, None where nothing was generated; `finishes` are how all choices ended.
    """

    record: RequestRecord
    errors: list[ErrorRecord]
    started: float
    traceparent: str | None
    sampling: Sampling | None
    finishes: list[str]


class RequestLog:
    """Belongs to the event loop.  `listeners` are called with each ended request, after its reply."""

    def __init__(
        self, report: Report | None, count: Callable[[RequestTrace], None] = lambda trace: None
    ) -> None:
        """`report` sends records to the engine host; None: they are for the listeners alone.  `count` is
        called at once with each request that ran anything.
        """
        self._count = count
        self.listeners: list[Callable[[EndedRequest], None]] = []
        self._report = report
        self._ended: list[tuple[float, RequestTrace]] = []

    def ended(self, trace: RequestTrace) -> None:
        """A request has ended; one that ran nothing and failed nowhere has no record."""
        if trace.calls:
            self._count(trace)
        is_wanted = self._report is not None or self.listeners
        if is_wanted and (trace.calls or trace.failures) and len(self._ended) < MAX_WAITING:
            self._ended.append((time.monotonic(), trace))

    def flush(self) -> None:
        """Make the records of what has ended since the last time."""
        ended, self._ended = self._ended, []
        if not ended:
            return
        if not self.listeners:  # the engine host holds the last ones, and those with an error
            latest = ended[-NUM_REQUESTS:]
            ended = [*(request for request in ended[:-NUM_REQUESTS] if request[1].failures), *latest]
        entries = [_ended(ended_s, trace) for ended_s, trace in ended]
        if self._report is not None:
            self._report(
                [entry.record for entry in entries], [error for entry in entries for error in entry.errors]
            )
        for entry in entries if self.listeners else ():
            for listener in self.listeners:
                try:
                    listener(entry)
                except Exception:
                    log.exception("a listener to ended requests failed")


def _ended(ended_s: float, trace: RequestTrace) -> EndedRequest:
    at = time.time() - (time.monotonic() - ended_s)
    first = trace.calls[0] if trace.calls else None
    model = None if first is None else first.model
    timings = [call.timing for call in trace.calls]
    finishes = [finish for timing in timings for finish in timing.finishes]
    path, seconds = trace.path[:MAX_PATH_CHARS], ended_s - trace.started_s
    record = RequestRecord(
        id=trace.id,
        at=at,
        path=path,
        model=model,
        status=trace.status or (trace.failures[0].status if trace.failures else 200),
        finish=next(iter(finishes), None),
        seconds=seconds,
        prompt_tokens=sum(timing.num_prompt_tokens for timing in timings),
        cached_tokens=sum(timing.num_cached_tokens for timing in timings),
        output_tokens=sum(timing.num_output_tokens for timing in timings),
        stream=trace.streams,
        spans=trace.spans(ended_s),
        account=trace.account,
    )
    errors = [
        ErrorRecord(trace.id, failure.at, failure.status, path, model, _shown(failure.message), trace.account)
        for failure in trace.failures
    ]
    sampling = None if first is None else first.sampling
    return EndedRequest(record, errors, at - seconds, trace.traceparent, sampling, finishes)


def _shown(message: str) -> str:
    """An error's message, cut short, without the values that it quotes."""
    return _VALUE.sub("", message)[:MAX_MESSAGE_CHARS]
