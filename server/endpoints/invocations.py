"""POST invocations: SageMaker's one path for every task; the body tells which endpoint is meant."""

from __future__ import annotations

from typing import Any

import falcon.asgi

from server.body import JsonObject, parse_body, read_body
from server.endpoints.chat import ChatCompletions
from server.endpoints.completions import Completions
from server.services import Services


class Invocations:
    """A body with `messages` is a chat, any other a completion."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._chat: Any = ChatCompletions(services)
        self._completions: Any = Completions(services)

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        exchange.at_end(services.admission.enter())
        raw = await read_body(req, services.settings.max_body_mb << 20)
        body = await parse_body(JsonObject, raw)
        endpoint = self._chat if "messages" in body.root else self._completions
        await endpoint.answer(raw, req, resp)
