"""POST requests/{request_id}/cancel: ends a request in flight, whichever worker and client it is of.

One of several keys ends its own requests alone, unless it is an admin key.
"""

from __future__ import annotations

import falcon
import falcon.asgi

from graphs.errors import shown
from pipelines.base.errors import NotFound
from server.http.exchange import Exchange
from server.schema.reply_models import Reply
from server.services.services import Services


class CancelledRequest(Reply):
    id: str
    cancelled: bool


class CancelRequestEndpoint:
    """Cancels a request by its id, which is in `X-Request-Id` of its reply, and in the feed."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, request_id: str) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        if not await self._services.client.cancel(request_id, exchange.sees):
            raise NotFound(f"No request `{shown(request_id)}` is in flight")
        resp.content_type = falcon.MEDIA_JSON
        resp.data = CancelledRequest(id=request_id, cancelled=True).to_json()
