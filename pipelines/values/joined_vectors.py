"""Joins the vectors of several groups of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipelines.values.node_values import SparseVectors, Vectors


def joined(groups: Sequence[Mapping[str, Vectors]]) -> dict[str, Vectors]:
    """The vectors of several groups of texts, one behind another."""
    return {kind: _joined([group[kind] for group in groups]) for kind in groups[0]}


def _joined(vectors: Sequence[Any]) -> Vectors:
    first = vectors[0]
    if isinstance(first, list):
        return [text for group in vectors for text in group]
    if not isinstance(first, SparseVectors):
        return np.concatenate(vectors)
    ids, weights, lengths = (
        np.concatenate([getattr(group, name) for group in vectors]) for name in ("ids", "weights", "lengths")
    )
    return SparseVectors(ids, weights, lengths, first.size)
