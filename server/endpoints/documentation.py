"""GET openapi.json and docs: the API of this server, for programs and for people.  Needs no API key."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from pathlib import Path

import falcon
import falcon.asgi

from server import openapi
from server.endpoints.paths import PREFIXES
from server.services import Services

PAGE = Path(openapi.__file__).with_name("page.html")


@cache
def document_json() -> bytes:
    """The document as JSON; made at the first request for it."""
    from server.openapi.document import document  # rarely requested, and a worker starts sooner without it

    return json.dumps(document(PREFIXES), ensure_ascii=False).encode()


class OpenAPIEndpoint:
    """The document."""

    def __init__(self, services: Services) -> None:
        pass

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.content_type = falcon.MEDIA_JSON
        resp.data = await asyncio.to_thread(document_json)


class DocsEndpoint:
    """A page that shows the document, and needs nothing but this server."""

    def __init__(self, services: Services) -> None:
        pass

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.content_type = "text/html; charset=utf-8"
        resp.data = await asyncio.to_thread(PAGE.read_bytes)
