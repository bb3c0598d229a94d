"""POST classify: the probability of each class for each text."""

from __future__ import annotations

from pipelines.values import Classes, Scores
from pipelines.worker.pipeline import Pipeline
from server.endpoints.pooling_endpoint import PoolingEndpoint
from server.model_lookup import CLASSIFICATION
from server.pooling.replies.classification import encode_classes
from server.pooling.replies.reply_models import EncodedReply, ReplyContext
from server.pooling.requests.classification import ClassificationRequest


class ClassifyEndpoint(PoolingEndpoint[ClassificationRequest]):
    kind = "classify"
    body = ClassificationRequest
    ability = CLASSIFICATION
    id_prefix = "classify-"

    def serialize(
        self,
        request: ClassificationRequest,
        pipeline: Pipeline,
        context: ReplyContext,
        value: Classes | Scores,
    ) -> EncodedReply:
        return encode_classes(context, value)
