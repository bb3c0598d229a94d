"""vLLM's paths for trainers: sleep and wake_up give them the memory, pause and resume stop generation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import falcon
import falcon.asgi

from pipelines.base.errors import BraidError, RequestError
from pipelines.wire.messages import PauseMode
from server.services.services import Services

MODES: tuple[PauseMode, ...] = get_args(PauseMode)


class SleepEndpoint:
    """Unloads every loaded model, once its calls have ended; requests load none until `wake_up`.

    Level 0 is a pause.  `mode` says what becomes of calls in flight: they end by themselves without it.  A
    pause ends: calls that waited for its end would never let their models go.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        exchange = req.scope["braid.exchange"]
        level = req.get_param_as_int("level", min_value=0, max_value=2, default=1)
        mode = _mode(req, default="wait", allowed=("abort", "wait") if level else MODES)
        if mode == "abort" or level == 0:
            await exchange.while_here(self._services.client.pause(mode, clears_cache=False))
        if level > 0:
            await self._services.client.resume()
            for name in await self._services.client.sleep():
                await exchange.while_here(self._services.client.unload(name))
        resp.media = {"status": "sleeping", "level": level}


class WakeUpEndpoint:
    """Loads the models that `sleep` unloaded; returns when all are served by this worker.  A pause ends.

    A model that fails keeps no other from loading; a composed graph is served after the models that it names.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        client = self._services.client
        await client.resume()
        await req.scope["braid.exchange"].while_here(self._load(await client.wake_up()))
        resp.media = {"status": "awake", "tags": req.get_param_as_list("tags")}

    async def _load(self, names: Sequence[str]) -> None:
        """Load as many as can be loaded: in rounds, as long as one brings another.  Raises BraidError."""
        failed: dict[str, BraidError] = {}
        for name in names:
            try:
                await self._services.catalogue.load_by_hand(name)
            except BraidError as error:
                failed[name] = error
        if failed and len(failed) < len(names):
            await self._load(list(failed))
        elif failed:
            raise next(iter(failed.values()))


class IsSleepingEndpoint:
    """Whether the server was put to sleep."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        status = self._services.client.status
        resp.media = {"is_sleeping": status is not None and status.is_sleeping}


class PauseEndpoint:
    """No model generates until `resume`; requests that come meanwhile wait.

    What runs is ended with what it has (`mode=abort`), ends by itself (`wait`) or goes on later (`keep`).
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        waits = req.get_param_as_bool("wait_for_inflight_requests", default=False)
        mode = _mode(req, default="wait" if waits else "abort")
        clears_cache = req.get_param_as_bool("clear_cache", default=True)
        pausing = self._services.client.pause(mode, clears_cache=clears_cache)
        await req.scope["braid.exchange"].while_here(pausing)
        resp.media = {"status": "paused"}


class ResumeEndpoint:
    """Has models generate again."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        await self._services.client.resume()
        resp.media = {"status": "resumed"}


class IsPausedEndpoint:
    """Whether the server is paused."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        status = self._services.client.status
        resp.media = {"is_paused": status is not None and status.is_paused}


def _mode(req: falcon.asgi.Request, default: PauseMode, allowed: tuple[PauseMode, ...] = MODES) -> PauseMode:
    """The parameter `mode`; RequestError for one that is not allowed."""
    given = req.get_param("mode", default=default)
    for mode in allowed:
        if mode == given:
            return mode
    names = ", ".join(allowed)
    raise RequestError(f"`mode` is one of {names}", field="mode")
