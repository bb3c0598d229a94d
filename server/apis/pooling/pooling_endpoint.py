"""POST pooling: the pooled output of a model for each text: an embedding, token embeddings, or classes."""

from __future__ import annotations

import numpy as np

from pipelines.requests.pooling.pooling import PoolingRequest
from pipelines.values.node_values import Classes, PooledOutputs, Scores
from pipelines.worker.model_choice import POOLING
from pipelines.worker.pipeline import Pipeline
from server.apis.pooling.base_endpoint import PoolingEndpoint
from server.apis.pooling.replies.reply_models import EncodedReply, ReplyContext
from server.apis.pooling.replies.vectors import encode_vectors, requested_format


class PoolingTasksEndpoint(PoolingEndpoint[PoolingRequest]):
    kind = "pooling"
    body = PoolingRequest
    ability = POOLING
    id_prefix = "pooling-"

    def check(self, request: PoolingRequest, pipeline: Pipeline) -> None:
        super().check(request, pipeline)
        request.check_task(pipeline.task)

    def serialize(
        self,
        request: PoolingRequest,
        pipeline: Pipeline,
        context: ReplyContext,
        value: PooledOutputs | Classes | Scores,
    ) -> EncodedReply:
        values = np.expand_dims(value.values, 1) if isinstance(value, Scores) else value.values
        return encode_vectors(context, values, requested_format(request), "data", "pooling")
