"""Falcon middleware that counts HTTP requests for `/metrics`, by the templates of their paths.

A WebSocket counts as the request that its handshake is, with the time until the reply to that.
"""

from __future__ import annotations

import time

import falcon.asgi
import falcon.routing

from pipelines.telemetry.http_requests import count_request
from server.services.paths import PREFIXES

NOT_COUNTED = frozenset(
    {"/metrics", "/health", "/v1/health", "/load", "/ping", "/version", "/v2/health/live", "/v2/health/ready"}
    | {"/status", "/status/{file}", *(f"{prefix}/status" for prefix in PREFIXES)}
)
"""What watchers call all the time: vLLM's, and health paths and the status page, which it does not have."""
NO_TEMPLATE = "none"
"""The `handler` of all paths that do not exist."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
OTHER_METHOD = "other"


class RequestCounts:
    """Counts a request when its exchange ends, a stream with its last byte."""

    def __init__(self, router: falcon.routing.CompiledRouter) -> None:
        self._router = router

    async def process_response(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, resource: object, succeeded: bool
    ) -> None:
        handler = req.uri_template or self._template(req.path)
        if handler in NOT_COUNTED:
            return
        exchange = req.scope["braid.exchange"]
        method = req.method if req.method in METHODS else OTHER_METHOD
        sizes = (req.content_length or 0, len(await resp.render_body() or b""))
        status = resp.status_code

        def count() -> None:
            count_request(handler, method, status, *sizes, time.monotonic() - exchange.started_s)

        exchange.at_end(count)

    async def process_request_ws(self, req: falcon.asgi.Request, ws: falcon.asgi.WebSocket) -> None:
        exchange, handler = req.scope["braid.exchange"], self._template(req.path)

        def count() -> None:
            if exchange.status:
                took_s = exchange.answered_s - exchange.started_s
                count_request(handler, "GET", exchange.status, 0, 0, took_s)

        exchange.at_end(count)

    def _template(self, path: str) -> str:
        """The template of a request that was refused before it was routed, as one without a key is."""
        found = self._router.find(path)
        return NO_TEMPLATE if found is None or found[3] is None else found[3]
