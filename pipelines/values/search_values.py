"""What a search finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found: `text` begins at the character `start` of `document`, below `heading`.

    `score` orders the hits, the best first; `scores` holds what it is made of: the cosine of the vectors
    (`dense`), BM25 of the words (`text`), the score of a reranking model (`rerank`).
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
