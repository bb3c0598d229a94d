"""Vectors, classes and rankings of texts from Python."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.base.cancellation import ClientGone
from pipelines.local.engine import LocalEngine, LocalRequest
from pipelines.local.replies import DocumentScore
from pipelines.nodes.pooling.entities import Entity, Strategy, entities_of, spans_as_entities
from pipelines.nodes.pooling.similarity import stored_scores
from pipelines.requests.pooling.classification import ClassificationRequest
from pipelines.requests.pooling.embedding import EmbeddingRequest
from pipelines.requests.pooling.pooling import PoolingRequest
from pipelines.requests.pooling.reranking import RerankRequest
from pipelines.requests.retrieval.search import SearchRequest
from pipelines.values.node_values import Classes, FoundEntities, Vectors
from pipelines.values.search_values import Hit, Hits
from pipelines.values.tasks import PoolingInput
from pipelines.worker.encoding import truncate_texts
from pipelines.worker.model_choice import CLASSIFICATION, EMBEDDING, SCORING, SEARCH, TAGGING, Ability
from pipelines.worker.pipeline import Pipeline


async def vectors_of(engine: LocalEngine, body: EmbeddingRequest) -> NDArray[np.float32]:
    """float32[num_texts, size].  Raises BraidError."""
    with LocalRequest() as request:
        pooled = await _answer(engine, body.model, EMBEDDING, request, lambda _: body.pooling_input())
        values: NDArray[np.float32] = pooled.values
        return values


async def kinds_of(engine: LocalEngine, body: EmbeddingRequest) -> dict[str, Vectors]:
    """The vectors of each kind that the request names.  Raises BraidError."""
    with LocalRequest() as request:
        pooled = await _answer(engine, body.model, EMBEDDING, request, lambda _: body.pooling_input())
        return dict(pooled.named)


async def classes_of(engine: LocalEngine, body: ClassificationRequest) -> list[dict[str, float]]:
    """The probability of each class for each text.  Raises BraidError."""
    with LocalRequest() as request:
        pooled = await _answer(engine, body.model, CLASSIFICATION, request, lambda _: body.pooling_input())
        classes = pooled if isinstance(pooled, Classes) else pooled.as_classes
        return [dict(zip(classes.labels, row.tolist(), strict=False)) for row in classes.values]


async def entities_in(
    engine: LocalEngine, body: PoolingRequest, strategy: Strategy, stride: int | None
) -> list[list[Entity]]:
    """The entities of each text.  Raises BraidError."""
    with LocalRequest() as request:
        labels = await _answer(
            engine, body.model, TAGGING, request, lambda _: replace(body.pooling_input(), stride=stride)
        )
        return (
            spans_as_entities(labels) if isinstance(labels, FoundEntities) else entities_of(labels, strategy)
        )


async def ranking_of(engine: LocalEngine, body: RerankRequest) -> list[DocumentScore]:
    """The best documents first, equal scores in their order.  Raises BraidError."""
    with LocalRequest() as request:
        scored = await _answer(engine, body.model, SCORING, request, partial(_comparison, body))
        scores = stored_scores(scored, body.stored_vectors)
        best = np.argsort(-scores, kind="stable")[: body.num_results].tolist()
        documents = [each.text or "" for each in body.documents]
        return [DocumentScore(index, float(scores[index]), documents[index]) for index in best]


async def hits_of(engine: LocalEngine, body: SearchRequest) -> list[list[Hit]]:
    """The hits of each query, the best first.  Raises BraidError."""
    with LocalRequest() as request:
        hits: Hits = await _answer(engine, body.model, SEARCH, request, lambda _: body.pooling_input())
        return hits.found


def _comparison(body: RerankRequest, pipeline: Pipeline) -> PoolingInput:
    """A cross-encoder gets pairs, an embedding model each text once."""
    if pipeline.task == "rerank":
        return body.pairs_input()
    return body.texts_input(partial(truncate_texts, pipeline))


async def _answer(
    engine: LocalEngine, model: str | None, ability: Ability, request: LocalRequest, given: Any
) -> Any:
    """The result of the model's task, for the input that `given` makes for its pipeline."""
    pipeline = await engine.find(model, ability, request)
    call = await engine.begin(pipeline, partial(given, pipeline), request)
    answer = await call.answer()
    if answer is None:
        raise ClientGone
    return answer
