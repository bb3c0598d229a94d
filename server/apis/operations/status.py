"""GET status: what the server does now, as JSON once, or as server-sent events once a second."""

from __future__ import annotations

from collections.abc import AsyncIterator

import falcon
import falcon.asgi

from server.http.admission import Admission
from server.http.errors import Forbidden
from server.http.exchange import Exchange
from server.http.streaming import as_stream
from server.services.services import Services
from server.status.feed import MAX_WATCHERS, Watcher

EVENTS = "text/event-stream"


class StatusEndpoint:
    """`model` of the query is shown in detail.  It takes no place among the worker's requests."""

    def __init__(self, services: Services) -> None:
        self._services = services
        share = services.settings.key_share
        self._places = Admission(MAX_WATCHERS, share, "has {} watchers of its status", "bound")

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        feed, model = self._services.feed, req.get_param("model") or None
        exchange: Exchange = req.scope["braid.exchange"]
        if exchange.key is not None and not exchange.key.allows_all:
            raise Forbidden("The status shows all models, and this key may use some of them only")
        self._check(model)
        if EVENTS in req.accept or req.get_param_as_bool("stream"):
            exchange.at_end(self._places.enter(exchange.tenant))
            watcher = feed.watch(model, exchange.sees)
            exchange.at_end(watcher.close)
            exchange.when_gone(watcher.close)
            as_stream(resp, _events(watcher))
            return
        _, resp.data = await feed.latest(model, exchange.sees)
        resp.content_type = falcon.MEDIA_JSON
        resp.set_header("Cache-Control", "no-cache")

    def _check(self, model: str | None) -> None:
        """Raise ModelNotFound; while the engine is away, nothing is known of models."""
        names = [card.name for card in self._services.catalogue.cards()]
        if model is not None and names and model not in names:
            raise self._services.catalogue.unknown(model)


async def _events(watcher: Watcher) -> AsyncIterator[bytes]:
    async for snapshot in watcher.snapshots():
        yield b"data: " + snapshot + b"\n\n"
