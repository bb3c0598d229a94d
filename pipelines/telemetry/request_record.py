"""What is recorded of the last requests of a server: where the time of each went, and which ones failed.

Workers write the records when a request has ended; engine hosts hold the last ones of all workers.  Neither
has any of a request's text but an error's message.
"""

from __future__ import annotations

from typing import Literal

import msgspec

NUM_REQUESTS = 100
"""Records of requests that are held; of more the newest."""
NUM_ERRORS = 50
MAX_SPANS = 64
"""Spans of one record: of more the longest."""

SpanKind = Literal["run", "wait", "prefill", "decode", "updates"]


class NodeSpan(msgspec.Struct, frozen=True, array_like=True):
    """Time of one request in one node of its graph: from `start_s` after its arrival, for `seconds`.

    "run": the node ran once.  "updates": the node handled updates, from the first to the last of them, and
    worked for `busy_s` of that time.  "wait", "prefill" and "decode" are those of an engine node.
    """

    path: str
    kind: SpanKind
    start_s: float
    seconds: float
    busy_s: float | None = None


class RequestRecord(msgspec.Struct, frozen=True, array_like=True):
    """One HTTP request that has ended: `at` in Unix seconds, after `seconds`.

    `model` and `finish` are None where it had none: it did not get that far, or its reply has no end reason.
    `account` is whose it was: a digest of its key, "" where none is needed.
    """

    id: str
    at: float
    path: str
    model: str | None
    status: int
    finish: str | None
    seconds: float
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    stream: bool = False
    spans: list[NodeSpan] = []
    account: str = ""


class ErrorRecord(msgspec.Struct, frozen=True, array_like=True):
    """One HTTP request of `account` that failed, `at` Unix seconds, and what its client was answered."""

    id: str
    at: float
    status: int
    path: str
    model: str | None
    message: str
    account: str = ""
