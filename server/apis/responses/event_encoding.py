"""Encodes the events of a response as server-sent events."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from server.apis.responses.output_items import Event
from server.schema.sse import DONE

FINAL_EVENTS = ("response.completed", "response.incomplete", "response.failed")
"""Types of the events that end a stream."""

KEEP_ALIVE = b'event: keepalive\ndata: {"type":"keepalive"}\n\n'
"""The event that OpenAI's servers send where nothing happens for long; Codex counts no comments."""

_encode = msgspec.json.Encoder().encode


def encode(value: dict[str, Any]) -> bytes:
    """JSON, with "?" for what is no valid Unicode, so that every stream has its final event."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def encode_event(event: Event) -> bytes:
    """One event: the `event:` and `data:` lines, followed by the end of the stream after a final event."""
    kind = event["type"]
    data = b"event: %b\ndata: %b\n\n" % (kind.encode(), encode(event))
    return data + DONE if kind in FINAL_EVENTS else data


def encode_events(events: list[Event]) -> bytes:
    """Several events, concatenated."""
    return b"".join([encode_event(event) for event in events])
