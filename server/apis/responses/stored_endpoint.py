"""Endpoints for stored responses: read, stream, cancel, delete, and list the input items."""

from __future__ import annotations

import falcon
import falcon.asgi
import msgspec

from pipelines.base.errors import RequestError
from server.apis.responses.database import ResponseDatabase
from server.apis.responses.event_encoding import KEEP_ALIVE
from server.apis.responses.query_parameters import check_includes, item_page, read_flag
from server.apis.responses.reply_models import RUNNING, DeletedResponse, Response
from server.apis.responses.store import encode_response
from server.http.exchange import Exchange
from server.http.query_page import read_whole_number
from server.http.streaming import as_stream, kept_alive
from server.services.services import Services


class CancelRefused(RequestError):
    kind = "invalid_request_error"


def account_of(req: falcon.asgi.Request) -> str:
    """The account whose stored responses the request may read and change."""
    exchange: Exchange = req.scope["braid.exchange"]
    return exchange.account


class _StoredResponseEndpoint:
    def __init__(self, services: Services) -> None:
        self._services = services


class StoredResponseEndpoint(_StoredResponseEndpoint):
    """GET and DELETE responses/{id}."""

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, response_id: str) -> None:
        check_includes(req)
        streams, after = read_flag(req, "stream"), read_whole_number(req, "starting_after")
        if after is not None and not streams:
            raise RequestError("`starting_after` needs `stream=true`", field="starting_after")
        if read_flag(req, "include_obfuscation"):
            raise RequestError("`include_obfuscation`: streams are not padded", field="include_obfuscation")
        stored = await self._services.response_store.get(response_id, account_of(req))
        if not streams:
            resp.content_type = falcon.MEDIA_JSON
            resp.data = stored.body
            return
        if not stored.background:
            raise RequestError("`stream`: only background responses can be streamed again", field="stream")
        exchange = req.scope["braid.exchange"]
        events = self._services.background.follow(response_id, -1 if after is None else after, exchange)
        as_stream(resp, kept_alive(exchange, events, KEEP_ALIVE))

    async def on_delete(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, response_id: str) -> None:
        store = self._services.response_store
        if not store.enabled or not await store.run(ResponseDatabase.delete, response_id, account_of(req)):
            raise store.missing(response_id)
        resp.content_type = falcon.MEDIA_JSON
        resp.data = DeletedResponse(id=response_id).model_dump_json().encode()


class CancelResponseEndpoint(_StoredResponseEndpoint):
    """POST responses/{id}/cancel."""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, response_id: str) -> None:
        store, account = self._services.response_store, account_of(req)
        stored = await store.get(response_id, account)
        if not stored.background:
            raise CancelRefused("Cannot cancel a synchronous response.", field="response_id")
        if stored.status in RUNNING:
            response = Response.model_validate_json(stored.body)
            response.status = "cancelled"
            await store.run(ResponseDatabase.end, stored, "cancelled", encode_response(response))
            stored = await store.get(response_id, account)
        if stored.status != "cancelled":
            raise CancelRefused(f"Cannot cancel a response that is {stored.status}.", field="response_id")
        resp.content_type = falcon.MEDIA_JSON
        resp.data = stored.body


class InputItemsEndpoint(_StoredResponseEndpoint):
    """GET responses/{id}/input_items."""

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, response_id: str) -> None:
        check_includes(req)
        stored = await self._services.response_store.get(response_id, account_of(req))
        resp.content_type = falcon.MEDIA_JSON
        resp.data = item_page(req, msgspec.json.decode(stored.items)).model_dump_json().encode()
