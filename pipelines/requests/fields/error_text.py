"""Text for error messages that quotes what the client sent."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

MAX_VALUE_CHARS = 100
MAX_VALUE_ITEMS = MAX_VALUE_CHARS // 2
"""More items of a container do not fit into MAX_VALUE_CHARS."""


def quoted(value: Any) -> str:
    """A value as JSON, cut short; a container of more than two items by its size."""
    if isinstance(value, dict | list) and len(value) > 2:
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = json.dumps(_beginning(value), ensure_ascii=False, default=str)
    return text if len(text) <= MAX_VALUE_CHARS else text[: MAX_VALUE_CHARS - 3] + "..."


def _beginning(value: Any, depth: int = 3) -> Any:
    """The part of a value that is shown: of containers the first items, of texts the first characters."""
    if isinstance(value, str):
        return value[:MAX_VALUE_CHARS]
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        return "..."
    if isinstance(value, dict):
        pairs = islice(value.items(), MAX_VALUE_ITEMS)
        return {str(key)[:MAX_VALUE_CHARS]: _beginning(item, depth - 1) for key, item in pairs}
    return [_beginning(item, depth - 1) for item in value[:MAX_VALUE_ITEMS]]
