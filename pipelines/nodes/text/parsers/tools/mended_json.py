"""Reads whole texts that are nearly JSON."""

from __future__ import annotations

import json
from typing import Any

from pipelines.nodes.text.parsers.tools.json_values import as_json, read_json
from pipelines.nodes.text.parsers.tools.model_json import ModelJson


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
        return mended(text)
    return json.loads(as_json(value)) if "\\ud" in text.lower() else value


def mended(text: str) -> Any:
    """The value in `text`, which is nearly JSON; ValueError where it is not."""
    writer = ModelJson()
    rest = writer.push(text) or ""
    writer.finish()
    if rest.strip():
        raise ValueError("no JSON")
    return read_json(writer.take())
