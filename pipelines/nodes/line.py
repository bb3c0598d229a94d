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
        return {port: _read(values, source) for port, source in self.sources.items()}


def _read(values: Mapping[str, Any], source: Source) -> Any:
    value = values[source.root]
    for name in source.fields:
        value = getattr(value, name)
    return value
