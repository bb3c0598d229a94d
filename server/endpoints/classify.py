"""POST classify: texts in, how likely each class is for each of them out."""

from __future__ import annotations

from pipelines.pipeline import Pipeline
from pipelines.values import Classes, Scores
from server.endpoints.asking import Asking
from server.finding import CLASSIFICATION
from server.generation.requests.abilities import check_template
from server.pooling.replies.classes import classified
from server.pooling.replies.schema import Head, Written
from server.pooling.requests.classification import ClassificationRequest


class Classify(Asking[ClassificationRequest]):
    kind = "classify"
    body = ClassificationRequest
    ability = CLASSIFICATION
    id_prefix = "classify-"

    def check(self, request: ClassificationRequest, pipeline: Pipeline) -> None:
        check_template(request.chat_template, self._services.settings)

    def written(
        self, request: ClassificationRequest, pipeline: Pipeline, head: Head, value: Classes | Scores
    ) -> Written:
        return classified(head, value)
