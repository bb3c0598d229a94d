"""Liveness and readiness.  They need no API key, so the replies carry little."""

from __future__ import annotations

from typing import Literal

import falcon
import falcon.asgi

from server.schema.reply_models import Reply
from server.services.server_ready import is_ready, listening
from server.services.services import Services

RETRY_AFTER_S = 2
ABLE = ("ready", "unloaded")
"""States of models that requests can be sent to: an unloaded one is loaded by them."""


class Health(Reply):
    """llama.cpp's: `status` is ok where requests can be served."""

    status: Literal["ok", "unavailable"]


class Liveness(Reply):
    live: bool


class Readiness(Reply):
    ready: bool


class HealthEndpoint:
    """200 when requests can be served: a model is ready or unloaded, or there is none."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        cards = self._services.catalogue.cards()
        able = not cards or any(card.state in ABLE for card in cards)
        is_fine = listening(self._services) and able
        resp.media = Health(status="ok" if is_fine else "unavailable").model_dump()
        if not is_fine:
            resp.status = 503
            resp.retry_after = RETRY_AFTER_S


class PingEndpoint(HealthEndpoint):
    """The check of health at the path of SageMaker, without a body."""

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        await super().on_get(req, resp)
        resp.media = None

    on_post = on_get


class LiveEndpoint:
    """200 as long as the worker runs."""

    def __init__(self, services: Services) -> None:
        pass

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.media = Liveness(live=True).model_dump()


class ReadyEndpoint:
    """200 when no new model is loading any more; 503 while one is, or without an engine host.

    A model that a request loads is not new.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        ready = is_ready(self._services)
        resp.media = Readiness(ready=ready).model_dump()
        if not ready:
            resp.status = 503
            resp.retry_after = RETRY_AFTER_S
