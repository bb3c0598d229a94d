"""The path of a request through its graph, for the client that asks for it: lines, their times and tokens.

It names what the model's own graph names, which `GET models/NAME/graph` shows the same client; lines of other
models are those of which this client may see the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import falcon.asgi

from pipelines.telemetry.request_trace import RequestTrace
from pipelines.worker.call import Call
from server.base.settings import Settings
from server.http.exchange import Exchange

if TYPE_CHECKING:
    from pipelines.worker.asked_call import AskedCall
    from pipelines.worker.composed_call import ComposedCall

HEADER = "X-Braid-Trace"
Allows = Callable[[str], bool]


def wants_trace(req: falcon.asgi.Request, settings: Settings) -> bool:
    """Whether a client asks for the path of its request, and may see graphs."""
    return req.get_header(HEADER) == "1" and settings.status


def trace_of(call: Call, exchange: Exchange) -> Callable[[], dict[str, Any]]:
    """A function that gives the path as far as it goes, for the key of the exchange."""
    key = exchange.key
    allows: Allows = (lambda name: True) if key is None else key.allows
    return lambda: call_trace(call, exchange.trace, allows)


def call_trace(call: Call, trace: RequestTrace, allows: Allows) -> dict[str, Any]:
    """`spans`: where the time went, in milliseconds from the request's arrival; of a composed graph also
    `calls`: the models that its lines asked, and `decisions`: which model a line chose.  Spans of a model
    that a line asked are there where the client's key `allows` it.
    """
    now_s = monotonic()
    spans = [
        {"node": span.path, "kind": span.kind, "start_ms": _ms(span.start_s), "ms": _ms(span.seconds)}
        for span in trace.spans(now_s, lambda noted: not noted.line or allows(noted.model))
    ]
    if not call.is_composed:
        return {"spans": spans}
    composed = cast("ComposedCall", call)
    calls = [_asked(asked, trace.started_s, now_s) for asked in composed.asked]
    return {"spans": spans, "calls": calls, "decisions": dict(composed.decisions)}


def _asked(asked: AskedCall, started_s: float, now_s: float) -> dict[str, Any]:
    spent = asked.spent
    return {
        "line": asked.line,
        "model": asked.model,
        "start_ms": _ms(asked.from_s - started_s),
        "ms": _ms((asked.to_s or now_s) - asked.from_s),
        "prompt_tokens": spent.num_prompt,
        "cached_tokens": spent.num_cached,
        "completion_tokens": spent.num_output,
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
