"""GET version: the version of the server."""

from __future__ import annotations

import falcon.asgi

from server.base.version import VERSION
from server.services.services import Services


class VersionEndpoint:
    def __init__(self, services: Services) -> None:
        pass

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.media = {"version": VERSION}
