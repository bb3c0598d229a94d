"""Whether the server lives, and whether it can serve.  Open without a key, so they say little."""

from __future__ import annotations

import falcon
import falcon.asgi

from server.services import Services

RETRY_AFTER_S = 2


class Health:
    """200 when a request could be served now: the engine has a model ready, or none to load."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        states = [card.state for card in self._services.catalogue.cards()]
        if not listening(self._services) or (states and "ready" not in states):
            resp.status = 503
            resp.retry_after = RETRY_AFTER_S

    on_head = on_get


class Ping(Health):
    """The same, where SageMaker asks."""

    on_post = Health.on_get


class Live:
    """200 as long as the worker answers."""

    def __init__(self, services: Services) -> None:
        pass

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.media = {"live": True}

    on_head = on_get


class Ready:
    """200 when every model that can be loaded is; 503 while one is loading or the engine is away."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        ready = self._ready()
        resp.media = {"ready": ready}
        if not ready:
            resp.status = 503
            resp.retry_after = RETRY_AFTER_S

    on_head = on_get

    def _ready(self) -> bool:
        status = self._services.client.status
        if status is None or status.state != "ready":
            return False
        return all(card.state != "loading" for card in self._services.catalogue.cards())


def listening(services: Services) -> bool:
    """Whether an engine host is there and takes requests."""
    status = services.client.status
    return status is not None and status.state != "draining"
