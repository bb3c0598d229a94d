"""POST rerank: ranks documents by their relevance to a query."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import falcon.asgi

from pipelines.nodes.pooling.similarity import stored_scores
from pipelines.requests.pooling.reranking import RerankRequest
from pipelines.values.tasks import PoolingInput
from pipelines.worker.pipeline import Pipeline
from server.apis.pooling.replies.ranking import encode_ovms_ranking, encode_ranking
from server.apis.pooling.replies.reply_models import EncodedReply, ReplyContext
from server.apis.pooling.score_endpoint import ComparisonEndpoint
from server.dialects import OVMS
from server.services.services import Services


class OvmsRerankEndpoint(ComparisonEndpoint[RerankRequest]):
    """Ranks as OpenVINO Model Server does: long documents are scored in parts, the reply has only results."""

    kind = "rerank"
    body = RerankRequest

    def pooling_input(self, request: RerankRequest, pipeline: Pipeline) -> PoolingInput:
        return replace(super().pooling_input(request, pipeline), chunk=request.chunk_documents is not False)

    def serialize(
        self, request: RerankRequest, pipeline: Pipeline, context: ReplyContext, value: Any
    ) -> EncodedReply:
        return encode_ovms_ranking(
            stored_scores(value, request.stored_vectors),
            request.num_results,
            request.returned_documents,
        )


class RerankEndpoint(ComparisonEndpoint[RerankRequest]):
    """Ranks as vLLM, Jina and Cohere do, with one reply for all three."""

    body = RerankRequest

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._ovms = OvmsRerankEndpoint(services)

    async def respond(self, raw: bytes, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        if req.scope["braid.exchange"].dialect is OVMS:
            await self._ovms.respond(raw, req, resp)
        else:
            await super().respond(raw, req, resp)

    def serialize(
        self, request: RerankRequest, pipeline: Pipeline, context: ReplyContext, value: Any
    ) -> EncodedReply:
        return encode_ranking(
            context,
            stored_scores(value, request.stored_vectors),
            request.num_results,
            request.returned_documents,
        )
