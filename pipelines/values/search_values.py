"""What a search finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.values.node_values import Prompt

VECTOR_KINDS = ("dense", "sparse")
"""The kinds of search by a model's vectors, named as the vectors are."""
SEARCH_KINDS = (*VECTOR_KINDS, "text")
"""The kinds of search, by the names of their weights and scores: by vectors, and by words."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found: `text` begins at the character `start` of `document`, below `heading`.

    `score` orders the hits, the best first; `scores` holds what it is made of: the cosine of the vectors
    (`dense`), the product of the sparse ones (`sparse`), BM25 of the words (`text`), the score of a reranking
    model (`rerank`).
    """

    document: str
    text: str
    score: float
    heading: str = ""
    start: int = 0
    attributes: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hits:
    """The hits of each query of a request, in its order."""

    queries: list[str]
    found: list[list[Hit]]


def pairs_to_rank(queries: Sequence[str], hits: Sequence[Sequence[Hit]]) -> list[tuple[Prompt, Prompt]]:
    """Each query with each of its hits, in order, for a reranking model."""
    return [
        (Prompt.of_text(query), Prompt.of_text(hit.text))
        for query, own in zip(queries, hits, strict=True)
        for hit in own
    ]
