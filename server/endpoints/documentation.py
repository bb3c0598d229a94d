"""GET openapi.json and docs: what this server can be asked, for programs and for people.  No key is asked."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from pathlib import Path

import falcon
import falcon.asgi

from server import openapi
from server.services import Services

PAGE = Path(openapi.__file__).with_name("page.html")


@cache
def written() -> bytes:
    """The document as JSON; made when it is first asked for."""
    from server.endpoints import PREFIXES  # the table of endpoints, which names this one
    from server.openapi.document import document  # few ask for it, and a worker starts sooner without

    return json.dumps(document(PREFIXES), ensure_ascii=False).encode()


class OpenAPI:
    """The document."""

    def __init__(self, services: Services) -> None:
        pass

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.content_type = falcon.MEDIA_JSON
        resp.data = await asyncio.to_thread(written)


class Docs:
    """A page that shows the document, and needs nothing but this server."""

    def __init__(self, services: Services) -> None:
        pass

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.content_type = "text/html; charset=utf-8"
        resp.data = await asyncio.to_thread(PAGE.read_bytes)
