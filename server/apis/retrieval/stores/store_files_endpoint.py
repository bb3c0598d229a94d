"""Endpoints for the files of vector stores, one by one and in batches."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, get_args

import falcon
import falcon.asgi

from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from server.apis.retrieval.stores.bodies import AddFileBatch, AddStoreFile, ChangeStoreFile
from server.apis.retrieval.stores.database import StoreDatabase
from server.apis.retrieval.stores.objects import (
    DeletedStoreFile,
    PassageText,
    StoreFileContent,
    VectorStoreFileList,
    file_batch_object,
    store_file_object,
)
from server.apis.retrieval.stores.rows import StoreFileStatus
from server.apis.retrieval.stores.stores_endpoint import StoresEndpointBase, reply, store_page
from server.http.exchange import Exchange
from server.http.request_body import parse_body

if TYPE_CHECKING:
    from pipelines.retrieval.index_reader import IndexReader

DESCRIBED_S, LOOK_S = 10.0, 0.02
"""How long a reply waits until searches know new attributes, and between two looks."""


class _FileListEndpoint(StoresEndpointBase):
    async def _list(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, store_id: str, batch: str | None
    ) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        page, status = store_page(req), req.get_param("filter")
        if status is not None and status not in get_args(StoreFileStatus):
            allowed = ", ".join(get_args(StoreFileStatus))
            raise RequestError(f"`filter` must be one of {allowed}, got {quoted(status)}", field="filter")
        files_of = StoreDatabase.files
        store, files = await self._stores.run(files_of, store_id, exchange.account, page, batch, status)
        reply(resp, VectorStoreFileList.of([store_file_object(store, file) for file in files], page.limit))


class StoreFilesEndpoint(_FileListEndpoint):
    """GET and POST vector_stores/{id}/files."""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, store_id: str) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        request = await parse_body(exchange, AddStoreFile, await self._services.admit(req))
        files = await self._new_files(exchange, [request])
        await self._stores.run(StoreDatabase.put, store_id, exchange.account, files)
        self._stores.changed.set()
        shown = await self._stores.run(StoreDatabase.file, store_id, exchange.account, request.file_id)
        reply(resp, store_file_object(*shown))

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, store_id: str) -> None:
        await self._list(req, resp, store_id, batch=None)


class StoreFileEndpoint(StoresEndpointBase):
    """GET, POST and DELETE vector_stores/{id}/files/{id}."""

    async def on_get(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, store_id: str, file_id: str
    ) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        shown = await self._stores.run(StoreDatabase.file, store_id, exchange.account, file_id)
        reply(resp, store_file_object(*shown))

    async def on_post(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, store_id: str, file_id: str
    ) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        request = await parse_body(exchange, ChangeStoreFile, await self._services.admit(req))
        stores, attributes = self._stores, request.attributes or {}
        await stores.run(StoreDatabase.set_attributes, store_id, exchange.account, file_id, attributes)
        stores.changed.set()
        store, _ = await stores.run(StoreDatabase.file, store_id, exchange.account, file_id)
        deadline_s = time.monotonic() + DESCRIBED_S
        while time.monotonic() < deadline_s:
            if await stores.run(StoreDatabase.is_described, store.number, file_id):
                break
            await asyncio.sleep(LOOK_S)
        await self.on_get(req, resp, store_id, file_id)

    async def on_delete(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, store_id: str, file_id: str
    ) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        await self._stores.run(StoreDatabase.remove_file, store_id, exchange.account, file_id)
        self._stores.changed.set()
        reply(resp, DeletedStoreFile(id=file_id))


class StoreFileContentEndpoint(StoresEndpointBase):
    """GET vector_stores/{id}/files/{id}/content."""

    async def on_get(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, store_id: str, file_id: str
    ) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        await self._stores.run(StoreDatabase.file, store_id, exchange.account, file_id)

        def read(reader: IndexReader) -> list[str]:
            return [passage.text for passage in reader.read(lambda passages: passages.text_of(file_id))]

        texts = await self._stores.readers.read(self._stores.index_of(store_id), read, list[str]())
        reply(resp, StoreFileContent(data=[PassageText(text=text) for text in texts]))


class FileBatchesEndpoint(StoresEndpointBase):
    """POST vector_stores/{id}/file_batches."""

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, store_id: str) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        request = await parse_body(exchange, AddFileBatch, await self._services.admit(req))
        files = await self._new_files(exchange, request.wanted())
        _, batch_id = await self._stores.run(
            StoreDatabase.put, store_id, exchange.account, files, in_batch=True
        )
        self._stores.changed.set()
        shown = await self._stores.run(StoreDatabase.counted_batch, store_id, exchange.account, batch_id)
        reply(resp, file_batch_object(*shown))


class _FileBatchEndpoint(StoresEndpointBase):
    async def _show(self, resp: falcon.asgi.Response, store_id: str, account: str, batch_id: str) -> None:
        shown = await self._stores.run(StoreDatabase.counted_batch, store_id, account, batch_id)
        reply(resp, file_batch_object(*shown))


class FileBatchEndpoint(_FileBatchEndpoint):
    """GET vector_stores/{id}/file_batches/{id}."""

    async def on_get(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, store_id: str, batch_id: str
    ) -> None:
        await self._show(resp, store_id, req.scope["braid.exchange"].account, batch_id)


class CancelFileBatchEndpoint(_FileBatchEndpoint):
    """POST vector_stores/{id}/file_batches/{id}/cancel."""

    async def on_post(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, store_id: str, batch_id: str
    ) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        await self._stores.run(StoreDatabase.cancel_batch, store_id, exchange.account, batch_id)
        self._stores.changed.set()
        await self._show(resp, store_id, exchange.account, batch_id)


class FileBatchFilesEndpoint(_FileListEndpoint):
    """GET vector_stores/{id}/file_batches/{id}/files."""

    async def on_get(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, store_id: str, batch_id: str
    ) -> None:
        await self._list(req, resp, store_id, batch_id)
