"""Reads whole texts that are nearly JSON."""

from __future__ import annotations

from typing import Any

from pipelines.nodes.text.parsers.tools.json_values import read_json
from pipelines.nodes.text.parsers.tools.model_json import ModelJson


def mended(text: str) -> Any:
    """The value in `text`, which is nearly JSON; ValueError where it is not."""
    writer = ModelJson()
    rest = writer.push(text) or ""
    writer.finish()
    if rest.strip():
        raise ValueError("no JSON")
    return read_json(writer.take())
