"""What a request may ask of draft tokens: which node of the graph each of its fields needs.

Knows names; knows nothing of how tokens are drafted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from pipelines.errors import RequestError


class Wish(NamedTuple):
    """A field as clients write it, and the types of node that can do what it asks."""

    field: str
    nodes: tuple[str, ...]


WISHES = {
    "num_draft_tokens": Wish("num_assistant_tokens", ("lookup", "draft")),
    "draft_threshold": Wish("assistant_confidence_threshold", ("draft",)),
    "max_ngram": Wish("max_ngram_size", ("lookup",)),
}
"""By name in `SamplingParams`; 0 asks for nothing.  Log-probabilities may be asked of any graph."""


def check_speculation(sampling: Mapping[str, Any], node_types: Collection[str]) -> None:
    """Raise RequestError for what none of a body's nodes can do."""
    for name, (field, nodes) in WISHES.items():
        if sampling.get(name) and not any(node in node_types for node in nodes):
            raise RequestError(
                f"`{field}` needs a {' or '.join(nodes)} node, which this model's graph does not have", field
            )
