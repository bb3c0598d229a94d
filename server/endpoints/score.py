"""POST score: how well documents answer queries, by a cross-encoder or by vectors.

Knows nothing of how a model scores.
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from pipelines.tasks import PoolingInput
from pipelines.values import Scores
from pipelines.worker.pipeline import Pipeline
from server.endpoints.pooling_endpoint import PoolingEndpoint
from server.model_lookup import SCORING
from server.pooling.replies.ranking import Floats, scored
from server.pooling.replies.schema import ReplyContext, Written
from server.pooling.replies.similarity import similarities
from server.pooling.requests.scoring import ComparingRequest, ScoreRequest
from server.tokenizing.encoding import beginnings

Body = TypeVar("Body", bound=ComparingRequest)


class Comparing(PoolingEndpoint[Body]):
    """An endpoint that asks how near texts are: pairs of a cross-encoder, else each text alone, once."""

    ability = SCORING
    id_prefix = "score-"

    def pooling(self, request: Body, pipeline: Pipeline) -> PoolingInput:
        if pipeline.task == "rerank":
            return request.as_pairs()
        return request.as_texts(partial(beginnings, pipeline))


def scores_of(request: ComparingRequest, value: Any) -> Floats:
    """A score for each document: float32[num_documents]."""
    if isinstance(value, Scores):
        return value.values
    return similarities(value, len(request.sides.queries))


class Score(Comparing[ScoreRequest]):
    body = ScoreRequest

    def written(self, request: ScoreRequest, pipeline: Pipeline, head: ReplyContext, value: Any) -> Written:
        return scored(head, scores_of(request, value))
