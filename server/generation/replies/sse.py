"""Replies → the bytes of server-sent events.

The common chunk, text and nothing else, is a prefix, the text as JSON and a suffix; prefix and suffix are
cut from the pydantic model once per choice.  Knows nothing of HTTP or of where pieces come from.
"""

from __future__ import annotations

import msgspec

from pipelines.errors import BraidError
from server.generation.replies.schema import Reply, envelope

DONE = b"data: [DONE]\n\n"

encode_text = msgspec.json.Encoder().encode


def event(reply: Reply) -> bytes:
    """One event with a reply as its data."""
    return b"data: " + reply.to_json() + b"\n\n"


def error_events(error: BraidError) -> bytes:
    """A stream's last words when it cannot go on."""
    return event(envelope(error)) + DONE


def cut(reply: Reply, mark: str) -> tuple[bytes, bytes]:
    """The event's bytes before and after the JSON text `mark`, which occurs in it once."""
    before, after = event(reply).split(encode_text(mark))
    return before, after
