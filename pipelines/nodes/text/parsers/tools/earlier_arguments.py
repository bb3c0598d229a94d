"""Reads the arguments of earlier calls, as clients send them back: most are plain JSON."""

from __future__ import annotations

import json
from typing import Any


def arguments_in(text: str) -> dict[str, Any] | str:
    """The object in the arguments of an earlier call, or else the text itself; of whole characters.

    A client that left a stream early has the beginning of one.
    """
    try:
        value = _read_or_mend(text or "{}")
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def _read_or_mend(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        from pipelines.nodes.text.parsers.tools.mended_json import mended  # few arguments need it

        return mended(text)
    if "\\ud" not in text.lower():
        return value
    from pipelines.nodes.text.parsers.tools.json_values import as_json

    return json.loads(as_json(value))
