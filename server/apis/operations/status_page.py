"""GET /status: the status page and its files, and / which leads browsers there.  They need no API key."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

import falcon
import falcon.asgi

from pipelines.base.digests import digest
from server import page
from server.services.services import Services

FOLDER = Path(page.__file__).parent
INDEX = "index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
"""Ending of a file's name → its type; files of other kinds are not served."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; media-src blob: data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
"""Nothing of the page comes from elsewhere, and no script or style is in its HTML."""


class PageFile(NamedTuple):
    """A file as it is served; `tag` changes with its bytes."""

    content_type: str
    data: bytes
    tag: str


def page_file(name: str) -> PageFile | None:
    """A file of the page; None where there is none of this name."""
    path = next((each for each in FOLDER.iterdir() if each.name == name), None)
    return _file(path) if path is not None and path.suffix in TYPES and path.is_file() else None


def _file(path: Path) -> PageFile:
    data = path.read_bytes()
    tag = digest(data, num_bytes=12)
    return PageFile(TYPES[path.suffix], data, tag)


HTML = "text/html"
RUNNING = "Ollama is running"
"""What Ollama says at /: its command line asks whether it gets a 200 there, other programs read the words."""


class FrontEndpoint:
    """Leads browsers to the page, where there is one; other programs learn that Ollama's API is served."""

    def __init__(self, services: Services) -> None:
        settings = services.settings
        self._has_page, self._speaks_ollama = settings.status, "ollama" in settings.apis

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        if not self._has_page and not self._speaks_ollama:
            raise falcon.HTTPRouteNotFound
        resp.append_header("Vary", "Accept")
        if self._speaks_ollama and not (self._has_page and HTML in req.accept):
            resp.content_type, resp.text = falcon.MEDIA_TEXT, RUNNING
        else:
            resp.status, resp.location = falcon.HTTP_307, "/status"


class StatusPageEndpoint:
    """The page, and by name the files that it loads."""

    def __init__(self, services: Services) -> None:
        pass

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, file: str = INDEX) -> None:
        found = await asyncio.to_thread(page_file, file)
        if found is None:
            raise falcon.HTTPNotFound
        resp.set_headers(HEADERS)
        resp.etag = found.tag
        if {found.tag, "*"} & set(req.if_none_match or ()):
            resp.status = falcon.HTTP_304
            return
        resp.content_type, resp.data = found.content_type, found.data
