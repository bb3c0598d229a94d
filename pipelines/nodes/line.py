"""One live line of a graph: the node, and where its inputs come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphs.graph import Source
from graphs.node import Node


@dataclass(frozen=True, slots=True)
class Line:
    """One live binding: the node and where its inputs come from."""

    name: str
    node: Node
    sources: Mapping[str, Source]
    gives: Any = None  # the type of its value

    def inputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {port: field_of(values[source.root], source) for port, source in self.sources.items()}


def field_of(value: Any, source: Source) -> Any:
    """What a source reads of the value of its root: that, or a field in it."""
    for name in source.fields:
        value = getattr(value, name)
    return value
