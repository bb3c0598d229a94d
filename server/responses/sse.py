"""Events of a response → server-sent bytes.  Knows nothing of what they tell."""

from __future__ import annotations

import msgspec

from server.generation.replies.sse import DONE
from server.responses.output import Event

LAST = ("response.completed", "response.incomplete", "response.failed")
"""Types of events after which nothing comes."""

_encode = msgspec.json.Encoder().encode


def written(told: Event) -> bytes:
    """One event as server-sent bytes: both lines in one piece, and the stream's end after the last."""
    kind = told["type"]
    data = b"event: %b\ndata: %b\n\n" % (kind.encode(), _encode(told))
    return data + DONE if kind in LAST else data


def joined(events: list[Event]) -> bytes:
    """Several events as one piece."""
    return b"".join([written(told) for told in events])
