"""Request ids that clients choose: what is safe to log, to send back and to build reply ids from."""

from __future__ import annotations

import re

MAX_ID_CHARS = 128


def clean_id(text: str | None) -> str | None:
    """A client's own request id when it is printable ASCII of moderate length, else None."""
    return text if text and len(text) <= MAX_ID_CHARS and re.fullmatch(r"[!-~]+", text) else None
