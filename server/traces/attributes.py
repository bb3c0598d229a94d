"""What the span of a request says of it, by the semantic conventions of OpenTelemetry (gen_ai, http)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.telemetry.request_record import NodeSpan, SpanKind
from server.services.request_log import EndedRequest

OPERATIONS = {
    "chat/completions": "chat",
    "responses": "chat",
    "messages": "chat",
    "completions": "text_completion",
    "embeddings": "embeddings",
    "embed": "embeddings",
}
"""End of a path → gen_ai.operation.name; of other paths it is their last word."""
ID_PREFIXES = {
    "chat/completions": "chatcmpl-",
    "completions": "cmpl-",
    "responses": "resp_",
    "messages": "msg_",
}
LATENCIES: Mapping[SpanKind, str] = {
    "wait": "gen_ai.latency.time_in_queue",
    "prefill": "gen_ai.latency.time_in_model_prefill",
    "decode": "gen_ai.latency.time_in_model_decode",
}
"""vLLM's names."""


def span_name(ended: EndedRequest) -> str:
    """One of few names: what a client writes into a path that does not exist is not in it."""
    record = ended.record
    return f"{operation(record.path)} {record.model}" if record.model else "request"


def operation(path: str) -> str:
    return next(
        (name for end, name in OPERATIONS.items() if path.endswith(f"/{end}")), path.rpartition("/")[2]
    )


def attributes(ended: EndedRequest) -> dict[str, Any]:
    """The attributes that have a value."""
    record, sampling = ended.record, ended.sampling
    values = {
        "gen_ai.operation.name": operation(record.path) if record.model else None,
        "gen_ai.provider.name": "braid",
        "gen_ai.request.model": record.model,
        "gen_ai.response.model": record.model,
        "gen_ai.request.id": record.id,
        "gen_ai.request.stream": record.stream,
        "gen_ai.response.id": _response_id(ended),
        "gen_ai.response.finish_reasons": ended.finishes or None,
        "gen_ai.usage.input_tokens": record.prompt_tokens if record.model else None,
        "gen_ai.usage.cache_read.input_tokens": record.cached_tokens if record.model else None,
        "gen_ai.usage.output_tokens": record.output_tokens if record.model else None,
        "gen_ai.latency.e2e": record.seconds,
        "url.path": record.path,
        "http.response.status_code": record.status,
        "error.type": failure(ended)[0],
        **_latencies(record.spans),
    }
    if sampling is not None:
        values["gen_ai.request.max_tokens"] = sampling.max_tokens
        values["gen_ai.request.temperature"] = sampling.temperature
        values["gen_ai.request.top_p"] = sampling.top_p
    return {name: value for name, value in values.items() if value is not None}


def failure(ended: EndedRequest) -> tuple[str | None, str]:
    """The status of an error that is the server's fault, and its message; None without one."""
    errors = [error for error in ended.errors if error.status >= 500]
    if errors:
        return str(errors[0].status), errors[0].message
    return (str(ended.record.status), "") if ended.record.status >= 500 else (None, "")


def _response_id(ended: EndedRequest) -> str | None:
    """The id in the reply, where it is made of the request's."""
    path = ended.record.path
    prefix = next((each for end, each in ID_PREFIXES.items() if path.endswith(f"/{end}")), None)
    return None if prefix is None or ended.record.status >= 400 else prefix + ended.record.id


def _latencies(spans: list[NodeSpan]) -> dict[str, float]:
    """The latencies of the first call that generates."""
    found: dict[str, float] = {}
    for span in spans:
        name = LATENCIES.get(span.kind)
        if name is not None:
            found.setdefault(name, span.seconds)
        if span.kind == "decode":
            found.setdefault("gen_ai.latency.time_to_first_token", span.start_s)
    return found
