"""Serializes replies as server-sent events.

The common chunk has text alone: a prefix, the text as JSON and a suffix.  Prefix and suffix are made from the
pydantic model once per choice.  Does not depend on HTTP.
"""

from __future__ import annotations

import msgspec

from pipelines.base.errors import BraidError
from server.schema.reply_models import Reply, envelope

DONE = b"data: [DONE]\n\n"

encode_text = msgspec.json.Encoder().encode


def event(reply: Reply) -> bytes:
    """One event with a reply as its data."""
    return b"data: " + reply.to_json() + b"\n\n"


def error_events(error: BraidError) -> bytes:
    """The last events of a stream that failed."""
    return event(envelope(error)) + DONE


def template(reply: Reply, placeholder: str) -> tuple[bytes, bytes]:
    """The event's bytes before and after the JSON text `placeholder`, which occurs in it once."""
    before, after = event(reply).split(encode_text(placeholder))
    return before, after
