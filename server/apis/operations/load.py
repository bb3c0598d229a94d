"""GET load: the number of requests in this worker.  Needs no API key."""

from __future__ import annotations

import falcon.asgi

from server.services.services import Services


class LoadEndpoint:
    """The admitted requests that have not ended; at most BRAID_MAX_CONCURRENCY."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.media = {"server_load": self._services.admission.num_inside}
