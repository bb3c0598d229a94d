"""GET openapi.json and docs: the API of this server, for programs and for people.  Needs no API key."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import falcon
import falcon.asgi

from pipelines.base.digests import digest
from server import openapi

PAGE = Path(openapi.__file__).with_name("page.html")


class WrittenAPI(NamedTuple):
    """The document as JSON, the same compressed, and a tag that changes with it."""

    plain: bytes
    gzipped: bytes
    tag: str


class OpenAPIEndpoint:
    """The document, compressed for those who take that, and not again for those who have it."""

    def __init__(self, write: Callable[[], bytes]) -> None:
        """`write` is called at the first request for the document."""
        self._write = write
        self._found: WrittenAPI | None = None
        self._making = asyncio.Lock()

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        document = self._found or await self._made()
        resp.etag = document.tag
        resp.set_headers({"Cache-Control": "no-cache", "Vary": "Accept-Encoding"})
        if {document.tag, "*"} & set(req.if_none_match or ()):
            resp.status = falcon.HTTP_304
            return
        resp.content_type = falcon.MEDIA_JSON
        resp.data = document.plain
        if "gzip" in (req.get_header("Accept-Encoding") or ""):
            resp.data = document.gzipped
            resp.set_header("Content-Encoding", "gzip")

    async def _made(self) -> WrittenAPI:
        """Made once, however many ask at the same time."""
        async with self._making:
            if self._found is None:
                self._found = await asyncio.to_thread(self._make)
            return self._found

    def _make(self) -> WrittenAPI:
        plain = self._write()
        return WrittenAPI(plain, gzip.compress(plain, mtime=0), digest(plain, num_bytes=12))


class DocsEndpoint:
    """A page that shows the document, and needs nothing but this server."""

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.content_type = "text/html; charset=utf-8"
        resp.data = await asyncio.to_thread(PAGE.read_bytes)
