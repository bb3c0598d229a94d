"""GET metrics: the metrics of all processes of the server in Prometheus' text format."""

from __future__ import annotations

import asyncio

import falcon.asgi

from pipelines.telemetry import deferred, exposition
from server.services.services import Services

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"


class MetricsEndpoint:
    def __init__(self, services: Services) -> None:
        pass

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        deferred.catch_up()
        resp.content_type = CONTENT_TYPE
        resp.data = await asyncio.to_thread(exposition.render)
