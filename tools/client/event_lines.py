"""The lines of a stream of events: what an event says, its end, and its errors."""

from __future__ import annotations

import json
from typing import Any

from tools.client.http_client import RequestFailed, error_message

EVENT, END = b"data:", b"[DONE]"


def event_text(line: bytes) -> bytes | None:
    """The text of an event; None for another line."""
    return line[len(EVENT) :].strip() if line.startswith(EVENT) else None


def json_of(body: bytes) -> Any:
    """Raises RequestFailed for what is no JSON."""
    try:
        return json.loads(body)
    except ValueError as error:
        raise RequestFailed(f"the reply is not JSON: {body[:60]!r}") from error


def event_of(text: bytes, status: int) -> Any:
    """The JSON of an event of a reply with this status.  Raises RequestFailed for an error."""
    event = json_of(text)
    if isinstance(event, dict) and event.get("error"):
        raise RequestFailed(error_message(status, text).partition(": ")[2])
    return event
