"""Reads and checks the fields of a format node."""

from __future__ import annotations

from typing import Any

from pipelines.grammars.formats import Format
from pipelines.grammars.leaf_formats import FormatError


def string(node: Format, field: str) -> str:
    value = node.get(field)
    if not isinstance(value, str):
        raise FormatError(f"{field!r} of a format of type {node.get('type')!r} must be a string")
    return value


def strings(node: Format, field: str) -> list[str]:
    value = node.get(field, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise FormatError(f"{field!r} of a format of type {node.get('type')!r} must be a list of strings")
    return value


def nodes(node: Format, field: str) -> list[Any]:
    value = node.get(field)
    if not isinstance(value, list) or not value:
        raise FormatError(
            f"{field!r} of a format of type {node.get('type')!r} must be a list that is not empty"
        )
    return value


def tags_of(node: Format) -> list[Format]:
    """The tags of a node; their own `type` is optional."""
    tags = nodes(node, "tags")
    if not all(isinstance(tag, dict) and isinstance(tag.get("begin"), str) for tag in tags):
        raise FormatError("'tags' must be objects with a 'begin'")
    return [{"type": "tag", **tag} for tag in tags]
