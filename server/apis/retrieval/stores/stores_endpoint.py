"""Endpoints for vector stores: create, list, look at, change, delete and search them."""

from __future__ import annotations

import json
import time
from typing import Any
from uuid import uuid4

import falcon
import falcon.asgi

from graphs.errors import listed
from pipelines.base.errors import MissingField, RequestError
from pipelines.worker.model_choice import EMBEDDING, able_names
from server.apis.batches.database import OfflineDatabase
from server.apis.retrieval.stores.bodies import (
    AddStoreFile,
    ChangeStore,
    ChunkingStrategy,
    CreateStore,
    SearchStore,
    StoreExpiry,
    files_alike,
)
from server.apis.retrieval.stores.database import StoreDatabase
from server.apis.retrieval.stores.objects import (
    DeletedStore,
    PassageText,
    StoreResult,
    StoreResults,
    VectorStoreList,
    store_object,
)
from server.apis.retrieval.stores.rows import NewStoreFile, StoreRow
from server.apis.retrieval.stores.vector_stores import VectorStores
from server.http.exchange import Exchange
from server.http.query_page import read_page
from server.http.request_body import parse_body
from server.schema.reply_models import Reply
from server.services.model_lookup import find_pipeline
from server.services.services import Services
from server.sqlite.pages import ListPage

DEFAULT_LIMIT, MAX_LIMIT = 20, 100


class StoresEndpointBase:
    """What the endpoints of vector stores share."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @property
    def _stores(self) -> VectorStores:
        return self._services.stores

    async def _new_files(self, exchange: Exchange, wanted: list[AddStoreFile]) -> list[NewStoreFile]:
        """The rows of uploaded files.  Raises NoFile for one that is not there, and StorageFull."""
        files = self._stores.files
        rows = []
        for one_file in wanted:
            stored = await files.run(OfflineDatabase.file, one_file.file_id, exchange.account)
            chunks = _chunks(one_file.chunking_strategy)
            rows.append(NewStoreFile(stored.id, stored.filename, one_file.attributes or {}, chunks))
        if rows:
            files.check_disk()
        return rows


class VectorStoresEndpoint(StoresEndpointBase):
    """GET and POST vector_stores."""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        request = await parse_body(exchange, CreateStore, await self._services.admit(req))
        model = await self._embedding_model(exchange, request.embedding_model)
        wanted = files_alike(request.file_ids, request.chunking_strategy)
        files = await self._new_files(exchange, wanted)
        store = _new_store(request, exchange.account, model)
        await self._stores.run(StoreDatabase.add, store, files)
        self._stores.changed.set()
        reply(resp, store_object(*await self._stores.run(StoreDatabase.counted, store.id, exchange.account)))

    async def _embedding_model(self, exchange: Exchange, wanted: str | None) -> str:
        """The model that a request names, else the only one or the default one that gives embeddings."""
        services = self._services
        able = able_names(services.of(exchange).catalogue.cards(), EMBEDDING)
        default = services.settings.default_model
        if wanted is None and len(able) != 1 and default not in able:
            offered = f"models: {listed(able)}" if able else "no model here gives embeddings"
            raise MissingField(f"`embedding_model` is required; {offered}", field="embedding_model")
        name = wanted or (able[0] if len(able) == 1 else default)
        return (await find_pipeline(services, exchange, name, EMBEDDING)).name

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        page = store_page(req)
        rows = await self._stores.run(StoreDatabase.stores, exchange.account, page)
        reply(resp, VectorStoreList.of([store_object(*row) for row in rows], page.limit))


class VectorStoreEndpoint(StoresEndpointBase):
    """GET, POST and DELETE vector_stores/{id}."""

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, store_id: str) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        reply(resp, store_object(*await self._stores.run(StoreDatabase.counted, store_id, exchange.account)))

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, store_id: str) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        request = await parse_body(exchange, ChangeStore, await self._services.admit(req))
        await self._stores.run(StoreDatabase.change, store_id, exchange.account, _changes(request))
        await self.on_get(req, resp, store_id)

    async def on_delete(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, store_id: str) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        await self._stores.run(StoreDatabase.delete, store_id, exchange.account)
        await self._stores.remove_index(store_id)
        reply(resp, DeletedStore(id=store_id))


class StoreSearchEndpoint(StoresEndpointBase):
    """POST vector_stores/{id}/search."""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, store_id: str) -> None:
        from server.apis.retrieval.stores.search import StoreSearch  # a worker starts sooner without it

        exchange: Exchange = req.scope["braid.exchange"]
        request = await parse_body(exchange, SearchStore, await self._services.admit(req))
        search = StoreSearch(self._services, exchange, request)
        store, removed = await self._stores.run(StoreDatabase.use, store_id, exchange.account)
        hits = await search.hits(store, removed)
        ids = [*{hit.document for hit in hits}]
        names = await self._stores.run(StoreDatabase.names, store.number, ids)
        results = [
            StoreResult(
                file_id=hit.document,
                filename=names[hit.document],
                score=hit.score,
                attributes=hit.attributes,
                content=[PassageText(text=hit.text)],
            )
            for hit in hits
            if hit.document in names
        ]
        reply(resp, StoreResults(search_query=request.query, data=results))


def reply(resp: falcon.asgi.Response, shown: Reply) -> None:
    """Answer with an object, its nulls included."""
    resp.content_type = falcon.MEDIA_JSON
    resp.data = shown.model_dump_json().encode()


def store_page(req: falcon.asgi.Request) -> ListPage:
    """The page that a client wants.  Raises RequestError."""
    if req.get_param("before") is not None:
        raise RequestError("`before` is not offered: use `after`, with the other `order`", field="before")
    return ListPage(*read_page(req, DEFAULT_LIMIT, MAX_LIMIT))


def _chunks(strategy: ChunkingStrategy | None) -> tuple[int, int] | None:
    if strategy is None or strategy.static is None:
        return None
    return strategy.static.max_chunk_size_tokens, strategy.static.chunk_overlap_tokens


def _new_store(request: CreateStore, account: str, model: str) -> StoreRow:
    now = time.time()
    return StoreRow(
        number=0,
        id=f"vs_{uuid4().hex}",
        account=account,
        name=request.name,
        description=request.description,
        model=model,
        metadata=request.metadata,
        days=_days(request.expires_after),
        created=now,
        active=now,
        expired=False,
        usage=0,
    )


def _days(expiry: StoreExpiry | None) -> int | None:
    return None if expiry is None else expiry.days


def _changes(request: ChangeStore) -> dict[str, Any]:
    """The columns that a request changes, and their values."""
    values = {
        "name": request.name or "",
        "metadata": json.dumps(request.metadata),
        "expires_after": _days(request.expires_after),
    }
    columns = {"expires_after": "days"}
    return {columns.get(name, name): values[name] for name in values if name in request.model_fields_set}
