"""POST embeddings: texts, token ids or conversations in, a vector for each out."""

from __future__ import annotations

from pipelines.values import PooledOutputs
from pipelines.worker.pipeline import Pipeline
from server.endpoints.pooling_endpoint import PoolingEndpoint
from server.model_lookup import EMBEDDING
from server.pooling.replies.schema import ReplyContext, Written
from server.pooling.replies.vectors import form_of, vectors
from server.pooling.requests.embedding import EmbeddingRequest


class Embeddings(PoolingEndpoint[EmbeddingRequest]):
    kind = "embeddings"
    body = EmbeddingRequest
    ability = EMBEDDING
    id_prefix = "embd-"

    def written(
        self, request: EmbeddingRequest, pipeline: Pipeline, head: ReplyContext, value: PooledOutputs
    ) -> Written:
        return vectors(head, value.values, form_of(request), "embedding", "embedding")
