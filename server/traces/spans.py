"""Spans of a request that has ended, from the times in its record: one for it, one for each node that ran.

Imported only where traces are on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pipelines.telemetry.request_record import NodeSpan
from server.services.request_log import EndedRequest
from server.traces.attributes import attributes, failure, span_name

PHASES = {"wait": "queue", "prefill": "prefill", "decode": "decode"}
"""What a request does at an engine node, in this order; the node has a span around them."""
ORDER = [*PHASES, "run", "updates"]


@dataclass
class NodeTime:
    """A node that ran once; `phases` are those of an engine node."""

    path: str
    start_s: float
    end_s: float
    busy_s: float | None = None
    phases: list[NodeSpan] = field(default_factory=list)


class SpanWriter:
    """Starts and ends the spans of requests, with the times that were measured."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._propagator = TraceContextTextMapPropagator()

    def write(self, ended: EndedRequest) -> None:
        begin_ns = _ns(ended.started)
        carrier = {} if ended.traceparent is None else {"traceparent": ended.traceparent}
        root = self._tracer.start_span(
            span_name(ended),
            self._propagator.extract(carrier, Context()),
            SpanKind.SERVER,
            attributes(ended),
            start_time=begin_ns,
        )
        kind, message = failure(ended)
        if kind is not None:
            root.set_status(Status(StatusCode.ERROR, message or None))
        if root.is_recording():
            self._nodes(ended.record.spans, root, begin_ns)
        root.end(begin_ns + _ns(ended.record.seconds))

    def _nodes(self, spans: list[NodeSpan], root: Span, begin_ns: int) -> None:
        """A node NODE.INNER of a graph in a graph is below NODE."""
        above = {"": trace.set_span_in_context(root, Context())}
        for node in sorted(node_times(spans), key=lambda node: node.path.count(".")):
            parent = next(above[path] for path in _paths_above(node.path) if path in above)
            span = self._tracer.start_span(node.path, parent, start_time=begin_ns + _ns(node.start_s))
            if node.busy_s is not None:
                span.set_attribute("braid.node.busy_s", node.busy_s)
            above[node.path] = inside = trace.set_span_in_context(span, Context())
            for phase in node.phases:
                start_ns = begin_ns + _ns(phase.start_s)
                part = self._tracer.start_span(PHASES[phase.kind], inside, start_time=start_ns)
                part.end(begin_ns + _ns(phase.start_s + phase.seconds))
            span.end(begin_ns + _ns(node.end_s))


def node_times(spans: list[NodeSpan]) -> list[NodeTime]:
    """The nodes in the order of their beginnings; the phases of an engine node are put together."""
    times: list[NodeTime] = []
    engines: dict[str, NodeTime] = {}
    for span in sorted(spans, key=lambda span: (span.start_s, ORDER.index(span.kind))):
        end_s = span.start_s + span.seconds
        if not span.path:
            continue
        if span.kind not in PHASES:
            times.append(NodeTime(span.path, span.start_s, end_s, span.busy_s))
            continue
        if span.kind == "wait" or span.path not in engines:
            engines[span.path] = NodeTime(span.path, span.start_s, end_s)
            times.append(engines[span.path])
        engines[span.path].phases.append(span)
        engines[span.path].end_s = max(engines[span.path].end_s, end_s)
    return times


def _paths_above(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition(".")[0]
        yield path


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
