"""Responses that are stored: read, followed, cancelled, deleted, and what they were told.

Knows nothing of how a response comes to be.
"""

from __future__ import annotations

import falcon
import falcon.asgi
import msgspec

from pipelines.errors import RequestError
from server.http.streaming import as_stream, kept_alive
from server.responses.query import flag, includes, page, whole_number
from server.responses.schema import RUNNING, Deleted, Response
from server.responses.store import Store
from server.responses.stored import NoResponse, packed
from server.services import Services


class CannotCancel(RequestError):
    kind = "invalid_request_error"


class OfKept:
    def __init__(self, services: Services) -> None:
        self._keeper = services.keeper
        self._background = services.background


class OneResponse(OfKept):
    """GET and DELETE responses/{id}."""

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, response_id: str) -> None:
        includes(req)
        streams, after = flag(req, "stream"), whole_number(req, "starting_after")
        if after is not None and not streams:
            raise RequestError("`starting_after` needs `stream=true`", field="starting_after")
        if flag(req, "include_obfuscation"):
            raise RequestError("`include_obfuscation`: streams are not padded", field="include_obfuscation")
        kept = await self._keeper.get(response_id)
        if not streams:
            resp.content_type = falcon.MEDIA_JSON
            resp.data = kept.body
            return
        if not kept.background:
            raise RequestError("`stream`: only background responses can be streamed again", field="stream")
        exchange = req.scope["braid.exchange"]
        events = self._background.follow(response_id, -1 if after is None else after, exchange)
        as_stream(resp, kept_alive(exchange, events))

    async def on_delete(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, response_id: str) -> None:
        keeper = self._keeper
        if not keeper.keeps or not await keeper(Store.delete, response_id):
            raise NoResponse(response_id)
        resp.content_type = falcon.MEDIA_JSON
        resp.data = Deleted(id=response_id).model_dump_json().encode()


class Cancel(OfKept):
    """POST responses/{id}/cancel."""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, response_id: str) -> None:
        keeper = self._keeper
        kept = await keeper.get(response_id)
        if not kept.background:
            raise CannotCancel("Cannot cancel a synchronous response.", field="response_id")
        if kept.status in RUNNING:
            response = Response.model_validate_json(kept.body)
            response.status = "cancelled"
            await keeper(Store.take, kept, "cancelled", packed(response))
            kept = await keeper.get(response_id)
        if kept.status != "cancelled":
            raise CannotCancel(f"Cannot cancel a response that is {kept.status}.", field="response_id")
        resp.content_type = falcon.MEDIA_JSON
        resp.data = kept.body


class InputItems(OfKept):
    """GET responses/{id}/input_items."""

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, response_id: str) -> None:
        includes(req)
        kept = await self._keeper.get(response_id)
        resp.content_type = falcon.MEDIA_JSON
        resp.data = page(req, msgspec.json.decode(kept.items)).model_dump_json().encode()
