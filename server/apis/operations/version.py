"""GET version: the version of the server."""

from __future__ import annotations

import falcon.asgi

from server.base.version import VERSION
from server.schema.reply_models import Reply
from server.services.services import Services


class ServerVersion(Reply):
    version: str


class VersionEndpoint:
    def __init__(self, services: Services) -> None:
        pass

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.media = ServerVersion(version=VERSION).model_dump()
