"""POST sleep and wake_up, GET is_sleeping: vLLM's paths by which trainers have the memory meanwhile."""

from __future__ import annotations

import falcon
import falcon.asgi

from server.services.services import Services


class SleepEndpoint:
    """Unloads every loaded model, once its calls have ended; requests do not load it."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        services, exchange = self._services, req.scope["braid.exchange"]
        level = req.get_param_as_int("level", min_value=0, max_value=2, default=1)
        for card in services.catalogue.cards():
            if card.state == "ready":
                await exchange.while_here(services.client.unload(card.name))
        resp.media = {"status": "sleeping", "level": level}


class WakeUpEndpoint:
    """Loads every model that is unloaded; returns when all are served by this worker."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        catalogue, exchange = self._services.catalogue, req.scope["braid.exchange"]
        for card in catalogue.cards():
            if card.state == "unloaded":
                await exchange.while_here(catalogue.load_by_hand(card.name))
        resp.media = {"status": "awake", "tags": None}


class IsSleepingEndpoint:
    """Whether no model is loaded, and there is one."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        states = {card.state for card in self._services.catalogue.cards()}
        resp.media = {"is_sleeping": "unloaded" in states and "ready" not in states}
