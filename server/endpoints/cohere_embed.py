"""POST v2/embed and v1/embed: Cohere's embeddings.  Knows nothing of how a model makes them."""

from __future__ import annotations

from typing import Any

from pipelines.tasks import PoolingInput
from pipelines.worker.pipeline import Pipeline
from server.endpoints.pooling_endpoint import PoolingEndpoint
from server.model_lookup import EMBEDDING
from server.pooling.replies.cohere import as_floats, by_type
from server.pooling.replies.schema import ReplyContext, Written
from server.pooling.requests.cohere import EmbedRequest
from server.tokenizing.encoding import template_source


class CohereEmbed(PoolingEndpoint[EmbedRequest]):
    body = EmbedRequest
    ability = EMBEDDING
    id_prefix = "embd-"
    version = "2"

    def check(self, request: EmbedRequest, pipeline: Pipeline) -> None:
        super().check(request, pipeline)
        request.check_input()

    def pooling(self, request: EmbedRequest, pipeline: Pipeline) -> PoolingInput:
        return request.embed(pipeline.max_context, template_source(pipeline) is not None)

    def written(self, request: EmbedRequest, pipeline: Pipeline, head: ReplyContext, value: Any) -> Written:
        return by_type(head, value.values, request.types, request.texts or None, self.version)


class CohereEmbedV1(CohereEmbed):
    """A request that names no types has the older reply."""

    version = "1"

    def written(self, request: EmbedRequest, pipeline: Pipeline, head: ReplyContext, value: Any) -> Written:
        if request.embedding_types:
            return super().written(request, pipeline, head, value)
        return as_floats(head, value.values, request.texts or [])
