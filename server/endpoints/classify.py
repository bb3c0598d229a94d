"""POST classify: texts in, how likely each class is for each of them out."""

from __future__ import annotations

from pipelines.values import Classes, Scores
from pipelines.worker.pipeline import Pipeline
from server.endpoints.pooling_endpoint import PoolingEndpoint
from server.model_lookup import CLASSIFICATION
from server.pooling.replies.classes import classified
from server.pooling.replies.schema import ReplyContext, Written
from server.pooling.requests.classification import ClassificationRequest


class Classify(PoolingEndpoint[ClassificationRequest]):
    kind = "classify"
    body = ClassificationRequest
    ability = CLASSIFICATION
    id_prefix = "classify-"

    def written(
        self, request: ClassificationRequest, pipeline: Pipeline, head: ReplyContext, value: Classes | Scores
    ) -> Written:
        return classified(head, value)
