"""POST embeddings: an embedding for each text, list of token ids or conversation."""

from __future__ import annotations

from pipelines.requests.pooling.embedding import EmbeddingRequest
from pipelines.values.node_values import PooledOutputs
from pipelines.worker.encoding import tokenize_node
from pipelines.worker.model_choice import EMBEDDING
from pipelines.worker.pipeline import Pipeline
from server.apis.pooling.base_endpoint import PoolingEndpoint
from server.apis.pooling.replies.kinds import encode_kinds
from server.apis.pooling.replies.reply_models import EncodedReply, ReplyContext
from server.apis.pooling.replies.vectors import encode_vectors, requested_format


class EmbeddingsEndpoint(PoolingEndpoint[EmbeddingRequest]):
    kind = "embeddings"
    body = EmbeddingRequest
    ability = EMBEDDING
    id_prefix = "embd-"

    def serialize(
        self, request: EmbeddingRequest, pipeline: Pipeline, context: ReplyContext, value: PooledOutputs
    ) -> EncodedReply:
        if request.embedding_kinds:
            node = tokenize_node(pipeline)
            return encode_kinds(context, request, value.named, node.tokenizer.id_to_token)
        return encode_vectors(context, value.values, requested_format(request), "embedding", "embedding")
