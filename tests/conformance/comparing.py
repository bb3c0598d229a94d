"""Finds where two replies differ.

Compares status, content type, key sets, types and values.  Values that differ between any two servers (ids, times,
counts of a cache) are compared by type, ids by their prefix too; so is text that was sampled at random.
Does not depend on the table of deliberate differences.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from exchanges import Answer, Exchange
from streams import joined

IDS = {"id", "item_id", "call_id", "request_id", "previous_response_id"}
PASSING = {
    *("created", "created_at", "completed_at", "system_fingerprint", "version"),
    *("cached_tokens", "created_cache_tokens", "time_to_first_token_ms", "generation_time_ms"),
    *("queue_time_ms", "mean_itl_ms", "tokens_per_second", "server_load"),
}
"""Values that change with every request."""
COUNTED_OR_NULL = {"created_cache_tokens"}
"""Values that are a number or null in vLLM too."""
DRAWN = {
    *("content", "text", "reasoning", "arguments", "token_ids", "delta"),
    *("finish_reason", "stop_reason", "completion_tokens", "total_tokens", "reasoning_tokens", "kinds"),
}
"""Values that depend on a sampled text."""
TOLERANCE = 1e-3
NEAR = 1e-4
"""Tolerance for numbers of embeddings, classes and scores."""
VECTORS = {"embedding", "data", "base64", "probs", "score", "relevance_score", "float"}
DTYPES = {"float32": "<f4", "float16": "<f2"}
MESSAGE = "error.message"


@dataclass(frozen=True)
class Diff:
    """One place where a reply differs: `what` is missing, extra, type or value."""

    path: str
    what: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        if self.what == "missing":
            return f"{self.path}: missing, expected {_shown(self.expected)}"
        if self.what == "extra":
            return f"{self.path}: extra, got {_shown(self.got)}"
        return f"{self.path}: {self.what}, expected {_shown(self.expected)}, got {_shown(self.got)}"


def diffs(exchange: Exchange, got: Answer) -> list[Diff]:
    """Where an answer differs from the recorded one."""
    expected = exchange.answer
    if expected.status != got.status:
        said = got.json if got.json is not None else got.text
        return [Diff("status", "value", expected.status, f"{got.status} {_shown(said)}")]
    differences = []
    if expected.content_type != got.content_type:
        differences.append(Diff("content-type", "value", expected.content_type, got.content_type))
    comparison = Comparison(exchange.is_sampled)
    return [*differences, *comparison.values("", _value(expected), _value(got))]


def _value(answer: Answer) -> Any:
    """What an answer says, as plain values."""
    if answer.events is not None:
        return {"stream": joined(answer.events)}
    if answer.json is not None:
        return answer.json
    if answer.data is not None:
        return {"metadata": answer.metadata, "data": _numbers(answer)}
    text = answer.text or ""
    families = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    return {"metrics": dict(families)} if families else {"text": text}


def _numbers(answer: Answer) -> list[float]:
    """The numbers of bytes, as their metadata says, or as float32."""
    told = answer.metadata["data"][0]["embed_dtype"] if answer.metadata else "float32"
    return [float(one) for one in np.frombuffer(answer.data or b"", DTYPES[told])]


def _decoded(value: Any) -> Any:
    """A vector that is written in base64, as numbers."""
    return np.frombuffer(b64decode(value), "<f4").tolist() if isinstance(value, str) else value


class Comparison:
    """How values are compared in one exchange."""

    def __init__(self, is_sampled: bool) -> None:
        self._drawn = DRAWN if is_sampled else set()
        self._free = PASSING | self._drawn

    def values(self, path: str, expected: Any, got: Any) -> Iterator[Diff]:
        key = path.rpartition(".")[2]
        if path == "error.param" and expected is None and got is not None:
            yield Diff(path, "extra", None, got)
        elif _type(expected) != _type(got):
            if key not in self._drawn | COUNTED_OR_NULL or None not in (expected, got):
                yield Diff(path, "type", expected, got)
        elif key in self._free or path.endswith(MESSAGE):
            return
        elif isinstance(expected, dict):
            yield from self._objects(path, expected, got)
        elif isinstance(expected, list):
            yield from self._lists(path, expected, got)
        elif isinstance(expected, str) and _is_vector(path):
            yield from self._lists(path, _decoded(expected), _decoded(got))
        elif key in IDS:
            if _prefix(expected) != _prefix(got):
                yield Diff(path, "value", expected, got)
        elif not _equal(expected, got, NEAR if _is_vector(path) else TOLERANCE):
            yield Diff(path, "value", expected, got)

    def _objects(self, path: str, expected: dict[Any, Any], got: dict[Any, Any]) -> Iterator[Diff]:
        if path == "stream.fields":  # a text may come in one piece
            both = expected.keys() & got.keys() | {"usage"}
            expected = {kind: fields for kind, fields in expected.items() if kind in both}
            got = {kind: fields for kind, fields in got.items() if kind in both}
        for key in expected:
            inner = f"{path}.{key}" if path else str(key)
            if key in got:
                yield from self.values(inner, expected[key], got[key])
            else:
                yield Diff(inner, "missing", expected[key], None)
        for key in got.keys() - expected.keys():
            yield Diff(f"{path}.{key}" if path else str(key), "extra", None, got[key])

    def _lists(self, path: str, expected: list[Any], got: list[Any]) -> Iterator[Diff]:
        if len(expected) != len(got):
            yield Diff(path, "value", expected, got)
            return
        for index, (one, other) in enumerate(zip(expected, got, strict=True)):
            yield from self.values(f"{path}.{index}", one, other)


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else type(value).__name__


def _is_vector(path: str) -> bool:
    """Whether a number of a vector stands there, or all of them as text."""
    names = [name for name in path.split(".") if not name.isdecimal()]
    return bool(names) and names[-1] in VECTORS


def _equal(expected: Any, got: Any, tolerance: float) -> bool:
    if _type(expected) == "number":
        return abs(expected - got) <= tolerance
    return bool(expected == got)


def _prefix(value: Any) -> Any:
    """The part of an id that names its kind."""
    return re.sub(r"[^-_]*$", "", value) if isinstance(value, str) else type(value)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 400 else f"{text[:200]} … {text[-180:]}"
