"""Endpoints for files: upload, list, look at, read and delete them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import BinaryIO, get_args

import falcon
import falcon.asgi

from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from server.apis.batches.database import OfflineDatabase
from server.apis.batches.files.file_models import DeletedFile, FileList, FileObject
from server.apis.batches.files.file_table import Purpose, StoredFile, new_file_id
from server.apis.batches.files.upload import Upload, UploadSink, stored_file
from server.apis.batches.offline_store import OfflineStore
from server.http.admission import Admission
from server.http.errors import BodyTooLarge
from server.http.exchange import Exchange
from server.http.form import FormReader
from server.http.query_page import read_page
from server.http.request_body import stream_body
from server.services.services import Services
from server.sqlite.pages import ListPage

MAX_FORM_BYTES = 1 << 20
"""The most bytes of the parts of a form that are no file."""
MAX_UPLOADS = 8
"""Files that a worker writes at a time, of which none is counted yet."""
UPLOAD_SHARE = 0.5
"""The part of them that one tenant may write while it is alone."""
MAX_LIST = 10_000
READ_BYTES = 256 << 10


class _FilesEndpoint:
    def __init__(self, services: Services) -> None:
        self._services = services

    @property
    def _store(self) -> OfflineStore:
        return self._services.offline


class FilesEndpoint(_FilesEndpoint):
    """GET and POST files."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._uploads = Admission(MAX_UPLOADS, UPLOAD_SHARE, "takes {} uploads", "bound")

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        self._services.enter(exchange)
        exchange.at_end(self._uploads.enter(exchange.tenant))
        file = await self._upload(req, exchange)
        resp.content_type = falcon.MEDIA_JSON
        resp.data = file_object(file).model_dump_json().encode()

    async def _upload(self, req: falcon.asgi.Request, exchange: Exchange) -> StoredFile:
        """The row of a file that is on the disk; nothing is left of one that is refused."""
        store, file_id = self._store, new_file_id()
        num_bytes = req.content_length or 0
        if num_bytes > store.max_file_bytes + MAX_FORM_BYTES:
            raise BodyTooLarge(f"a file may have {store.max_file_bytes} bytes at most (BRAID_FILE_MB)")
        await store.run(OfflineDatabase.check_room, exchange.account, max(0, num_bytes - MAX_FORM_BYTES))
        store.check_disk(max(0, num_bytes - MAX_FORM_BYTES))
        sink = UploadSink(store.folder, file_id, store.max_file_bytes, store.check_disk)
        reader: FormReader[Upload] = FormReader(req.content_type or "", sink.take)
        try:
            form = await stream_body(req, reader.read)
            file = stored_file(form, file_id, exchange.account, time.time(), store.max_age_s)
            await store.run(OfflineDatabase.add_file, file)
        except BaseException:
            sink.folder.remove(file_id)
            raise
        return file

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        purpose = req.get_param("purpose")
        if purpose is not None and purpose not in get_args(Purpose):
            raise RequestError(
                f"`purpose` must be {' or '.join(get_args(Purpose))}, got {quoted(purpose)}", field="purpose"
            )
        page = ListPage(*read_page(req, MAX_LIST, MAX_LIST))
        files = await self._store.run(OfflineDatabase.files, exchange.account, page, purpose)
        file_list = FileList.of([file_object(file) for file in files], page.limit)
        resp.content_type = falcon.MEDIA_JSON
        resp.data = file_list.model_dump_json().encode()


class FileEndpoint(_FilesEndpoint):
    """GET and DELETE files/{id}."""

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, file_id: str) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        file = await self._store.run(OfflineDatabase.file, file_id, exchange.account)
        resp.content_type = falcon.MEDIA_JSON
        resp.data = file_object(file).model_dump_json().encode()

    async def on_delete(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, file_id: str) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        await self._store.delete(file_id, exchange.account)
        resp.content_type = falcon.MEDIA_JSON
        resp.data = DeletedFile(id=file_id).model_dump_json().encode()


class FileContentEndpoint(_FilesEndpoint):
    """GET files/{id}/content."""

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, file_id: str) -> None:
        exchange: Exchange = req.scope["braid.exchange"]
        stored = await self._store.run(OfflineDatabase.file, file_id, exchange.account)
        file = await asyncio.to_thread(self._store.folder.read, file_id)
        exchange.at_end(file.close)
        has_lines = stored.purpose in ("batch", "batch_output")
        resp.content_type = "application/jsonl" if has_lines else "application/octet-stream"
        resp.content_length = stored.size
        resp.stream = _pieces(file)


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(file.read, READ_BYTES):
        yield piece


def file_object(file: StoredFile) -> FileObject:
    """A file as clients see it."""
    return FileObject(
        id=file.id,
        bytes=file.size,
        created_at=int(file.created),
        expires_at=int(file.expires),
        filename=file.filename,
        purpose=file.purpose,
    )
