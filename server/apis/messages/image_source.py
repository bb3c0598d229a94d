"""The `source` of an image block: its bytes in base64, or its URL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.known_fields import check_fields

SOURCES: dict[Any, tuple[str, ...]] = {"base64": ("media_type", "data"), "url": ("url",)}
"""Type of a source → the texts that it must have."""


def check_source(source: Mapping[str, Any], where: str) -> None:
    """Raise RequestError, with its place, for a source that is unknown or incomplete."""
    kind = source.get("type")
    if not isinstance(kind, str) or kind not in SOURCES:
        raise RequestError(
            f"`{where}.type`: {quoted(kind)} is not read; allowed: {', '.join(SOURCES)}",
            field=f"{where}.type",
        )
    for name in SOURCES[kind]:
        if not isinstance(source.get(name), str):
            raise RequestError(
                f"`{where}.{name}`: a text is required in a source of type `{kind}`", field=f"{where}.{name}"
            )
    known = ("type", *SOURCES[kind])
    check_fields({name: source[name] for name in source if name not in known}, known, where=f"{where}.")


def url_of(source: Mapping[str, Any]) -> str:
    """A checked source as one URL."""
    if source["type"] == "url":
        return str(source["url"])
    return f"data:{source['media_type']};base64,{source['data']}"
