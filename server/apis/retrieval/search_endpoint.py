"""POST search: the passages of an index that answer a query."""

from __future__ import annotations

import falcon
import falcon.asgi

from pipelines.requests.retrieval.search import SearchRequest
from pipelines.worker.call import Call
from pipelines.worker.model_choice import SEARCH
from server.apis.pooling.pooling_call import run_pooling_call
from server.apis.retrieval.replies import search_reply
from server.http.exchange import Exchange
from server.http.request_body import parse_body
from server.services.model_lookup import find_pipeline
from server.services.services import Services


class SearchEndpoint:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services = self._services
        exchange: Exchange = req.scope["braid.exchange"]
        raw = await services.admit(req)
        request = await parse_body(exchange, SearchRequest, raw)
        pipeline = await find_pipeline(services, exchange, request.model, SEARCH)

        def prepare() -> Call:
            return services.prepare(pipeline, request.pooling_input(), exchange)

        result = await run_pooling_call(await exchange.off_loop(prepare, len(raw)), exchange)
        reply_id = f"search-{exchange.client_id or exchange.request_id}"
        reply = search_reply(
            reply_id, pipeline.name, result.value, result.num_tokens, request.return_text is not False
        )
        resp.content_type, resp.data = falcon.MEDIA_JSON, reply.to_json()
