"""POST pooling: what a model gives for each text, whatever its task: a vector, rows of tokens, or classes."""

from __future__ import annotations

import numpy as np

from pipelines.values import Classes, PooledOutputs, Scores
from pipelines.worker.pipeline import Pipeline
from server.endpoints.pooling_endpoint import PoolingEndpoint
from server.model_lookup import POOLING
from server.pooling.replies.schema import ReplyContext, Written
from server.pooling.replies.vectors import form_of, vectors
from server.pooling.requests.pooling import PoolingRequest


class Pooling(PoolingEndpoint[PoolingRequest]):
    kind = "pooling"
    body = PoolingRequest
    ability = POOLING
    id_prefix = "pooling-"

    def check(self, request: PoolingRequest, pipeline: Pipeline) -> None:
        super().check(request, pipeline)
        request.check_task(pipeline.task)

    def written(
        self,
        request: PoolingRequest,
        pipeline: Pipeline,
        head: ReplyContext,
        value: PooledOutputs | Classes | Scores,
    ) -> Written:
        rows = np.expand_dims(value.values, 1) if isinstance(value, Scores) else value.values
        return vectors(head, rows, form_of(request), "data", "pooling")
