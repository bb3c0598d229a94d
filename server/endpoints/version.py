"""GET version: the version of the server."""

from __future__ import annotations

import falcon.asgi

from server.services import Services
from server.version import VERSION


class VersionEndpoint:
    def __init__(self, services: Services) -> None:
        pass

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.media = {"version": VERSION}
