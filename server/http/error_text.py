"""Text for error messages that quotes what the client sent."""

from __future__ import annotations

import json
from typing import Any

MAX_VALUE_CHARS = 100


def quoted(value: Any) -> str:
    """A value as JSON, cut short; a container of more than two items by its size."""
    if isinstance(value, dict | list) and len(value) > 2:
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_VALUE_CHARS else text[: MAX_VALUE_CHARS - 3] + "..."
