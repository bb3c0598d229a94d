"""POST score: scores documents against queries, with a cross-encoder or with embeddings."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from pipelines.values.node_values import Scores
from pipelines.values.tasks import PoolingInput
from pipelines.worker.pipeline import Pipeline
from server.apis.pooling.base_endpoint import PoolingEndpoint
from server.apis.pooling.replies.ranking import Floats, encode_scores
from server.apis.pooling.replies.reply_models import EncodedReply, ReplyContext
from server.apis.pooling.replies.similarity import similarities
from server.apis.pooling.requests.scoring import ComparisonRequest, ScoreRequest
from server.apis.tokenizing.encoding import truncate_texts
from server.services.model_lookup import SCORING

Body = TypeVar("Body", bound=ComparisonRequest)


class ComparisonEndpoint(PoolingEndpoint[Body]):
    """The base of score and rerank: a cross-encoder gets pairs, an embedding model each text once."""

    ability = SCORING
    id_prefix = "score-"

    def pooling_input(self, request: Body, pipeline: Pipeline) -> PoolingInput:
        if pipeline.task == "rerank":
            return request.pairs_input()
        return request.texts_input(partial(truncate_texts, pipeline))


def document_scores(request: ComparisonRequest, value: Any) -> Floats:
    """The score of each document, float32[num_documents]."""
    if isinstance(value, Scores):
        return value.values
    return similarities(value, len(request.compared.queries))


class ScoreEndpoint(ComparisonEndpoint[ScoreRequest]):
    body = ScoreRequest

    def serialize(
        self, request: ScoreRequest, pipeline: Pipeline, context: ReplyContext, value: Any
    ) -> EncodedReply:
        return encode_scores(context, document_scores(request, value))
