"""Replies of several models as one: classes averaged, rankings fused by their ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pipelines.base.errors import EngineError
from pipelines.retrieval.rank_fusion import fused_ranks
from pipelines.values.node_values import Classes, Scores
from pipelines.values.search_values import Hit, Hits
from pipelines.values.tasks import PoolingInput, SearchInput


def mean_classes(request: PoolingInput, replies: Sequence[Classes], weights: Sequence[float]) -> Classes:
    """The weighted means, by the labels of the first.  Raises EngineError where another's labels differ."""
    labels = replies[0].labels
    for reply in replies:
        if set(reply.labels) != set(labels):
            raise EngineError(f"the classifiers have different labels: {labels} and {reply.labels}")
    columns = [reply.values[:, [reply.labels.index(label) for label in labels]] for reply in replies]
    return Classes(np.average(columns, axis=0, weights=weights).astype(np.float32), labels)


def fused_scores(request: PoolingInput, replies: Sequence[Scores], weights: Sequence[float]) -> Scores:
    """The scores of pairs by reciprocal rank fusion of the pairs of each query."""
    fused = np.zeros(len(request.pairs), np.float32)
    for rows in _rows_by_query(request):
        rankings = [sorted(rows, key=lambda row: -reply.values[row]) for reply in replies]
        for row, score in fused_ranks(rankings, weights).items():
            fused[row] = score
    return Scores(fused)


def fused_hits(request: SearchInput, replies: Sequence[Hits], weights: Sequence[float]) -> Hits:
    """For each query the passages of all models, by reciprocal rank fusion."""
    by_query = zip(*(reply.found for reply in replies), strict=True)
    return Hits(replies[0].queries, [_fused(lists, weights)[: request.top] for lists in by_query])


def _fused(lists: Sequence[Sequence[Hit]], weights: Sequence[float]) -> list[Hit]:
    known = {_place(hit): hit for hits in reversed(lists) for hit in hits}
    scores = fused_ranks([[_place(hit) for hit in hits] for hits in lists], weights)
    order = sorted(scores, key=lambda place: -scores[place])
    return [replace(known[place], score=scores[place]) for place in order]


def _place(hit: Hit) -> tuple[str, int]:
    return hit.document, hit.start


def _rows_by_query(request: PoolingInput) -> list[list[int]]:
    rows: dict[str, list[int]] = {}
    for row, (query, _) in enumerate(request.pairs):
        rows.setdefault(query.text or str(query.ids), []).append(row)
    return list(rows.values())
