"""POST pooling: the pooled output of a model for each text: an embedding, token embeddings, or classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pipelines.nodes.pooling.result_names import COLBERT
from pipelines.requests.pooling.pooling import PoolingRequest
from pipelines.values.node_values import Classes, FoundEntities, PooledOutputs, Scores, TokenClasses
from pipelines.values.tasks import PoolingInput
from pipelines.worker.model_choice import POOLING
from pipelines.worker.pipeline import Pipeline
from pipelines.worker.required_nodes import gives_kind
from server.apis.pooling.base_endpoint import PoolingEndpoint
from server.apis.pooling.replies.classification import encode_spans
from server.apis.pooling.replies.reply_models import EncodedReply, ReplyContext
from server.apis.pooling.replies.vectors import encode_vectors, requested_format


class PoolingTasksEndpoint(PoolingEndpoint[PoolingRequest]):
    kind = "pooling"
    body = PoolingRequest
    ability = POOLING
    id_prefix = "pooling-"

    def check(self, request: PoolingRequest, pipeline: Pipeline) -> None:
        super().check(request, pipeline)
        request.check_task(pipeline.task, gives_kind(pipeline, COLBERT))

    def pooling_input(self, request: PoolingRequest, pipeline: Pipeline) -> PoolingInput:
        wants_tokens = request.task == "token_embed" and pipeline.task == "embed"
        return replace(request.pooling_input(), results=(COLBERT,) if wants_tokens else ())

    def serialize(
        self,
        request: PoolingRequest,
        pipeline: Pipeline,
        context: ReplyContext,
        value: PooledOutputs | Classes | TokenClasses | Scores | FoundEntities,
    ) -> EncodedReply:
        if isinstance(value, FoundEntities):
            return encode_spans(context, value)
        values = np.expand_dims(value.values, 1) if isinstance(value, Scores) else value.values
        return encode_vectors(context, values, requested_format(request), "data", "pooling")
