"""Reciprocal rank fusion: several rankings become one by their ranks (Cormack, Clarke and Büttcher, 2009)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

RANK_OFFSET = 60
"""k of the paper: what is added to each rank."""


def fused_ranks(rankings: Iterable[Sequence[Key]], weights: Iterable[float]) -> dict[Key, float]:
    """The sum of weight / (60 + rank) for each key, over the rankings that hold it; ranks begin with 1."""
    scores: dict[Key, float] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        for rank, key in enumerate(ranking, 1):
            scores[key] = scores.get(key, 0.0) + weight / (RANK_OFFSET + rank)
    return scores
