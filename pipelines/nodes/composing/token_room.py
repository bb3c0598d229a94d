"""Which passages have room in a number of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.base.errors import EngineError
from pipelines.nodes.composing.readable import titled
from pipelines.nodes.interface import NamedGraph
from pipelines.nodes.naming import nodes_of
from pipelines.values.search_values import Hit

MOST_TOKENS = 1 << 15
"""The most that a line may allow: counting them takes milliseconds."""


def first_within(hits: Sequence[Hit], graph: NamedGraph, most: int) -> list[Hit]:
    """The first passages that have at most `most` tokens of a graph together, headings included."""
    tokenizer: Any = next((node.tokenizer for node in nodes_of(graph) if hasattr(node, "tokenizer")), None)
    if tokenizer is None:
        raise EngineError("the model by whose tokens passages are counted has no tokenizer")
    shown = []
    for hit in hits:
        most -= len(tokenizer.encode(titled(hit), add_special_tokens=False).ids)
        if most < 0:
            break
        shown.append(hit)
    return shown
