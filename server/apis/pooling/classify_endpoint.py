"""POST classify: the probability of each class for each text."""

from __future__ import annotations

from pipelines.requests.pooling.classification import ClassificationRequest
from pipelines.values.node_values import Classes, Scores
from pipelines.worker.model_choice import CLASSIFICATION
from pipelines.worker.pipeline import Pipeline
from server.apis.pooling.base_endpoint import PoolingEndpoint
from server.apis.pooling.replies.classification import encode_classes
from server.apis.pooling.replies.reply_models import EncodedReply, ReplyContext


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
