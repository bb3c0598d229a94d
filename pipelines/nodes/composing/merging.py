"""Replies of several models as one: classes averaged, rankings fused by their ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pipelines.base.errors import EngineError
from pipelines.values.node_values import Classes, Scores
from pipelines.values.search_values import Hit, Hits
from pipelines.values.tasks import PoolingInput, SearchInput

RANK_OFFSET = 60
"""What reciprocal rank fusion adds to each rank (Cormack, Clarke and Büttcher 2009)."""


def mean_classes(request: PoolingInput, replies: Sequence[Classes], weights: Sequence[float]) -> Classes:
    """The weighted means, by the labels of the first.  Raises EngineError where another's labels differ."""
    labels = replies[0].labels
    for reply in replies:
        if set(reply.labels) != set(labels):
            raise EngineError(f"the classifiers have different labels: {labels} and {reply.labels}")
    columns = [reply.values[:, [reply.labels.index(label) for label in labels]] for reply in replies]
    return Classes(np.average(columns, axis=0, weights=weights).astype(np.float32), labels)


def fused_scores(request: PoolingInput, replies: Sequence[Scores], weights: Sequence[float]) -> Scores:
    """For each pair the sum of weight / (60 + rank) over the models: its rank among those of its query."""
    fused = np.zeros(len(request.pairs), np.float32)
    for rows in _rows_by_query(request):
        for reply, weight in zip(replies, weights, strict=True):
            fused[rows] += weight / (RANK_OFFSET + _ranks(reply.values[rows]))
    return Scores(fused)


def fused_hits(request: SearchInput, replies: Sequence[Hits], weights: Sequence[float]) -> Hits:
    """For each query the passages of all, by the sum of weight / (60 + rank) over models that found them."""
    by_query = zip(*(reply.found for reply in replies), strict=True)
    return Hits(replies[0].queries, [_fused(lists, weights)[: request.top] for lists in by_query])


def _fused(lists: Sequence[Sequence[Hit]], weights: Sequence[float]) -> list[Hit]:
    scores: dict[tuple[str, int], float] = {}
    known: dict[tuple[str, int], Hit] = {}
    for hits, weight in zip(lists, weights, strict=True):
        for rank, hit in enumerate(hits, 1):
            key = hit.document, hit.start
            scores[key] = scores.get(key, 0.0) + weight / (RANK_OFFSET + rank)
            known.setdefault(key, hit)
    order = sorted(scores, key=lambda key: -scores[key])
    return [replace(known[key], score=scores[key]) for key in order]


def _rows_by_query(request: PoolingInput) -> list[list[int]]:
    rows: dict[str, list[int]] = {}
    for row, (query, _) in enumerate(request.pairs):
        rows.setdefault(query.text or str(query.ids), []).append(row)
    return list(rows.values())


def _ranks(scores: NDArray[np.float32]) -> NDArray[np.int64]:
    """From 1 for the largest; of equal ones the first goes before."""
    ranks = np.empty(len(scores), np.int64)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    return ranks
