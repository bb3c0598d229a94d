"""POST rerank: documents in the order in which they answer a query.  Knows nothing of how a model scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import falcon.asgi

from pipelines.tasks import PoolingInput
from pipelines.worker.pipeline import Pipeline
from server.dialects import OVMS, dialect_of
from server.endpoints.score import Comparing, scores_of
from server.pooling.replies.ranking import bare_ranking, ranking
from server.pooling.replies.schema import ReplyContext, Written
from server.pooling.requests.reranking import RerankRequest
from server.services import Services


class OvmsRerank(Comparing[RerankRequest]):
    """As OpenVINO Model Server: long documents are scored by their parts, the reply holds only results."""

    kind = "rerank"
    body = RerankRequest

    def pooling(self, request: RerankRequest, pipeline: Pipeline) -> PoolingInput:
        return replace(super().pooling(request, pipeline), chunk=request.chunk_documents is not False)

    def written(self, request: RerankRequest, pipeline: Pipeline, head: ReplyContext, value: Any) -> Written:
        return bare_ranking(scores_of(request, value), request.num_best, request.shown)


class Rerank(Comparing[RerankRequest]):
    """As vLLM, Jina and Cohere, in one reply."""

    body = RerankRequest

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._ovms = OvmsRerank(services)

    async def answer(self, raw: bytes, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        if dialect_of(req.path) is OVMS:
            await self._ovms.answer(raw, req, resp)
        else:
            await super().answer(raw, req, resp)

    def written(self, request: RerankRequest, pipeline: Pipeline, head: ReplyContext, value: Any) -> Written:
        return ranking(head, scores_of(request, value), request.num_best, request.shown)
