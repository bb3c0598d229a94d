"""Endpoints for batches: create, list, look at and cancel them."""

from __future__ import annotations

import time
from uuid import uuid4

import falcon
import falcon.asgi

from server.apis.batches.batch_models import Batch, BatchList, CreateBatch
from server.apis.batches.database import OfflineDatabase
from server.http.exchange import Exchange
from server.http.query_page import read_page
from server.http.request_body import parse_body
from server.services.services import Services
from server.sqlite.pages import ListPage

DAY_S = 86_400
DEFAULT_LIMIT, MAX_LIMIT = 20, 100


class _BatchesEndpoint:
    def __init__(self, services: Services) -> None:
        self._services = services


class BatchesEndpoint(_BatchesEndpoint):
    """GET and POST batches."""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        request = await parse_body(exchange, CreateBatch, await self._services.admit(req))
        store, batch = self._services.offline, new_batch(request)
        expiry = request.output_expires_after
        output_s = None if expiry is None else float(expiry.seconds)
        await store.run(OfflineDatabase.add_batch, batch, exchange.account, output_s)
        store.changed.set()
        _reply(resp, batch)

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        page = ListPage(*read_page(req, DEFAULT_LIMIT, MAX_LIMIT))
        store = self._services.offline
        batches = await store.run(OfflineDatabase.batches, exchange.account, page)
        resp.content_type = falcon.MEDIA_JSON
        resp.data = BatchList.of(batches, page.limit).model_dump_json().encode()


class BatchEndpoint(_BatchesEndpoint):
    """GET batches/{id}."""

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, batch_id: str) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        _reply(resp, await self._services.offline.run(OfflineDatabase.batch, batch_id, exchange.account))


class CancelBatchEndpoint(_BatchesEndpoint):
    """POST batches/{id}/cancel."""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, batch_id: str) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        store = self._services.offline
        batch = await store.run(OfflineDatabase.cancel, batch_id, exchange.account)
        store.changed.set()
        _reply(resp, batch)


def new_batch(request: CreateBatch) -> Batch:
    now = int(time.time())
    return Batch(
        id=f"batch_{uuid4().hex}",
        endpoint=request.endpoint,
        input_file_id=request.input_file_id,
        completion_window=request.completion_window,
        created_at=now,
        expires_at=now + DAY_S,
        metadata=request.metadata,
    )


def _reply(resp: falcon.asgi.Response, batch: Batch) -> None:
    resp.content_type = falcon.MEDIA_JSON
    resp.data = batch.model_dump_json().encode()
