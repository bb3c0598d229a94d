"""POST rerank and POST /: a body goes to the endpoint that it is meant for."""

from __future__ import annotations

from typing import Any

import falcon.asgi

from pipelines.worker.catalogue import Catalogue
from pipelines.worker.model_choice import EMBEDDING
from server.apis.operations.status_page import FrontEndpoint
from server.apis.pooling.rerank_endpoint import RerankEndpoint
from server.apis.tei.dialect import TEI
from server.apis.tei.endpoints import EmbedEndpoint, LabelEndpoint, RankEndpoint, SimilarityEndpoint
from server.apis.tei.errors import Invalid, translated_errors
from server.http.request_body import JsonObject, parse_body
from server.services.services import Services


class AnyRerankEndpoint:
    """A body with `texts` is that of text-embeddings-inference, any other one of Jina, Cohere or vLLM."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._texts, self._documents = RankEndpoint(services), RerankEndpoint(services)

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        exchange = req.scope["braid.exchange"]
        raw = await self._services.admit(req)
        if b'"texts"' not in raw:
            await self._documents.respond(raw, req, resp)
            return
        other, exchange.dialect = exchange.dialect, TEI  # also for a body that is no JSON
        with translated_errors():
            body = (await parse_body(exchange, JsonObject, raw)).root
        exchange.dialect = TEI if "texts" in body else other
        await (self._texts if "texts" in body else self._documents).respond(raw, req, resp)


class AnyTaskEndpoint(FrontEndpoint):
    """A body is forwarded by its fields, and by what the model does that it is for."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._services = services
        self._endpoints: dict[str, Any] = {
            "rerank": RankEndpoint(services),
            "similarity": SimilarityEndpoint(services),
            "embed": EmbedEndpoint(services),
            "predict": LabelEndpoint(services),
        }

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        with translated_errors():
            raw = await self._services.admit(req)
            body = (await parse_body(req.scope["braid.exchange"], JsonObject, raw)).root
            if "inputs" not in body and "query" not in body:
                raise Invalid("`inputs` is required", field="inputs")
        catalogue = self._services.of(req.scope["braid.exchange"]).catalogue
        await self._endpoints[self._kind(body, catalogue)].respond(raw, req, resp)

    def _kind(self, body: dict[str, Any], catalogue: Catalogue) -> str:
        if "query" in body:
            return "rerank"
        if isinstance(body["inputs"], dict):
            return "similarity"
        tasks = {card.task for card in catalogue.cards() if body.get("model") in (None, card.name)}
        return "embed" if tasks & {*EMBEDDING.tasks} else "predict"
