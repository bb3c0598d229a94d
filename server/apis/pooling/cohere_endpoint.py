"""POST v2/embed and v1/embed: Cohere's embed API."""

from __future__ import annotations

from typing import Any

from pipelines.requests.pooling.cohere import CohereEmbedRequest
from pipelines.values.tasks import PoolingInput
from pipelines.worker.encoding import template_source
from pipelines.worker.model_choice import EMBEDDING
from pipelines.worker.pipeline import Pipeline
from server.apis.pooling.base_endpoint import PoolingEndpoint
from server.apis.pooling.replies.cohere import encode_by_type, encode_floats
from server.apis.pooling.replies.reply_models import EncodedReply, ReplyContext


class CohereEmbedEndpoint(PoolingEndpoint[CohereEmbedRequest]):
    body = CohereEmbedRequest
    ability = EMBEDDING
    id_prefix = "embd-"
    version = "2"

    def check(self, request: CohereEmbedRequest, pipeline: Pipeline) -> None:
        super().check(request, pipeline)
        request.check_input()

    def pooling_input(self, request: CohereEmbedRequest, pipeline: Pipeline) -> PoolingInput:
        return request.embedding_input(pipeline.max_context, template_source(pipeline) is not None)

    def serialize(
        self, request: CohereEmbedRequest, pipeline: Pipeline, context: ReplyContext, value: Any
    ) -> EncodedReply:
        return encode_by_type(context, value.values, request.types, request.texts or None, self.version)


class CohereEmbedV1Endpoint(CohereEmbedEndpoint):
    """Version 1: a request without types gets the older reply."""

    version = "1"

    def serialize(
        self, request: CohereEmbedRequest, pipeline: Pipeline, context: ReplyContext, value: Any
    ) -> EncodedReply:
        if request.embedding_types:
            return super().serialize(request, pipeline, context, value)
        return encode_floats(context, value.values, request.texts or [])
