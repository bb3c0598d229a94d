"""What is noted of a request while it runs, so that a record of it can be made after its reply."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple, Protocol

from pipelines.telemetry.node_work import NodeWork
from pipelines.telemetry.request_record import MAX_SPANS, NodeSpan, SpanKind
from pipelines.telemetry.request_timing import RequestTiming

MAX_ERRORS = 20
"""The most errors that are noted of one request; a socket may have many."""


class EngineTime(NamedTuple):
    """A time that a call spent with an engine node, by the monotonic clock."""

    path: str
    kind: SpanKind
    from_s: float
    to_s: float


class Sampling(NamedTuple):
    """How the output of a call is generated."""

    max_tokens: int
    temperature: float
    top_p: float


@dataclass(slots=True, eq=False)
class CallTrace:
    """One call of a request: a run of a model's graph.  Holds none of its values."""

    model: str
    works: Mapping[str, NodeWork]
    timing: RequestTiming
    generates: str = ""  # path of the node that generates, "" while nothing was sent to one
    sampling: Sampling | None = None
    engines: list[EngineTime] = field(default_factory=list)
    line: str = ""  # the line of a composed graph that it was made for

    def spans(self, origin_s: float, now_s: float) -> Iterator[NodeSpan]:
        """Where its time went, in seconds from `origin_s` on."""
        times = list(self.engines)
        if self.generates:
            times += [EngineTime(self.generates, *phase) for phase in self.timing.phases(now_s)]
        with_engine = {phase.path for phase in times}
        before = f"{self.line}." if self.line else ""
        for path, work in self.works.items():
            if work.last_s:
                seconds = work.last_s - work.first_s
                yield NodeSpan(before + path, "updates", work.first_s - origin_s, seconds, work.busy_s)
            elif path not in with_engine:
                yield NodeSpan(before + path, "run", work.start_s - origin_s, work.run_s)
        for path, kind, from_s, to_s in times:
            yield NodeSpan(before + path, kind, from_s - origin_s, to_s - from_s)


class Failure(NamedTuple):
    """An error that the client was sent, `at` Unix seconds."""

    at: float
    status: int
    message: str


class NotesCalls(Protocol):
    """What calls are noted in: a request, or a line of a composed graph that runs for it."""

    @property
    def id(self) -> str:
        """The id of the request."""

    def add(self, call: CallTrace) -> None:
        """A call begins."""


class LineTrace:
    """The calls that are made for one line of a composed graph, in the trace of its request."""

    def __init__(self, trace: NotesCalls, line: str) -> None:
        self.id = trace.id
        self._trace = trace
        self._line = line

    def add(self, call: CallTrace) -> None:
        call.line = f"{self._line}.{call.line}" if call.line else self._line
        self._trace.add(call)


class RequestTrace:
    """One request from its arrival on; its calls and its errors are added while it runs."""

    def __init__(self, request_id: str, started_s: float) -> None:
        self.id = request_id
        self.started_s = started_s
        self.account = ""  # whose it is: a digest of the key, "" where none is needed
        self.path = ""
        self.status = 0
        self.streams = False
        self.traceparent: str | None = None
        self.calls: list[CallTrace] = []
        self.failures: list[Failure] = []
        self.runs_on = False  # whether a run outlives the reply; the record is made when it has ended

    def add(self, call: CallTrace) -> None:
        self.calls.append(call)

    def fail(self, status: int, message: str) -> None:
        """The client is sent an error."""
        if len(self.failures) < MAX_ERRORS:
            self.failures.append(Failure(time.time(), status, message))

    def spans(self, now_s: float, shows: Callable[[CallTrace], bool] = lambda call: True) -> list[NodeSpan]:
        """The spans of the calls that it `shows`, in the order of their beginnings; of more than MAX_SPANS
        the longest.
        """
        shown = filter(shows, self.calls)
        found = [span for call in shown for span in call.spans(self.started_s, now_s)]
        if len(found) > MAX_SPANS:
            found = sorted(found, key=attrgetter("seconds"), reverse=True)[:MAX_SPANS]
        return sorted(found, key=attrgetter("start_s"))
