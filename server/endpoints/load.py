"""GET load: how busy this worker is.  Open without a key, so it says a number only."""

from __future__ import annotations

import falcon.asgi

from server.services import Services


class Load:
    """Requests that this worker has admitted and not yet answered: the counterpart of max_concurrency."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.media = {"server_load": self._services.admission.num_inside}
