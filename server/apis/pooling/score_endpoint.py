"""POST score: scores documents against queries, with a cross-encoder or with embeddings."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from pipelines.nodes.pooling.similarity import document_scores
from pipelines.requests.pooling.scoring import ComparisonRequest, ScoreRequest
from pipelines.values.tasks import PoolingInput
from pipelines.worker.encoding import truncate_texts
from pipelines.worker.model_choice import SCORING
from pipelines.worker.pipeline import Pipeline
from server.apis.pooling.base_endpoint import PoolingEndpoint
from server.apis.pooling.replies.ranking import encode_scores
from server.apis.pooling.replies.reply_models import EncodedReply, ReplyContext

Body = TypeVar("Body", bound=ComparisonRequest)


class ComparisonEndpoint(PoolingEndpoint[Body]):
    """The base of score and rerank: a cross-encoder gets pairs, an embedding model each text once."""

    ability = SCORING
    id_prefix = "score-"

    def pooling_input(self, request: Body, pipeline: Pipeline) -> PoolingInput:
        if pipeline.task == "rerank":
            return request.pairs_input()
        return request.texts_input(partial(truncate_texts, pipeline))


class ScoreEndpoint(ComparisonEndpoint[ScoreRequest]):
    body = ScoreRequest

    def serialize(
        self, request: ScoreRequest, pipeline: Pipeline, context: ReplyContext, value: Any
    ) -> EncodedReply:
        return encode_scores(context, document_scores(value, len(request.compared.queries)))
