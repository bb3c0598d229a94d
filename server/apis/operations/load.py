"""GET load: the number of requests in this worker.  Needs no API key."""

from __future__ import annotations

import falcon.asgi

from server.schema.reply_models import Reply
from server.services.services import Services


class ServerLoad(Reply):
    server_load: int


class LoadEndpoint:
    """The admitted requests that have not ended; at most BRAID_MAX_CONCURRENCY."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.media = ServerLoad(server_load=self._services.admission.num_inside).model_dump()
