"""What endpoints work with: settings, the way to the engine, the models, and the places for requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import falcon.asgi

from pipelines.base.errors import Unavailable
from pipelines.telemetry import deferred
from pipelines.worker.allowed_models import AllowedModels
from pipelines.worker.catalogue import Catalogue
from pipelines.worker.engines.faces import HostClient, RequestClient
from server.base.settings import Settings
from server.http.admission import Admission
from server.http.exchange import Exchange
from server.http.request_body import BYTE_ORDER_MARK, ArrivingBodies, body_here, is_here, joined
from server.http.work_queue import Work
from server.process.worker_state import WorkerProcess, WorkerState
from server.services.affinity import affinity_key, fields_of
from server.services.request_log import RequestLog

if TYPE_CHECKING:
    from pipelines.worker.call import Call
    from pipelines.worker.pipeline import Pipeline
    from server.apis.batches.offline_store import OfflineStore
    from server.apis.responses.background import BackgroundResponses
    from server.apis.responses.store import ResponseStore
    from server.apis.retrieval.stores.vector_stores import VectorStores
    from server.apis.speech.sound_memory import SoundMemory
    from server.apis.usage.usage_log import UsageLog
    from server.keys.key_file import KeyFile
    from server.keys.limits import KeyLimits
    from server.media.fetching import MediaFetcher
    from server.services.pulls import Pulls
    from server.status.feed import StatusFeed
    from server.traces.sender import TraceSender

log = logging.getLogger("braid.server")

CATCH_UP_S = 30.0
"""The seconds that a new worker waits at most to serve the host's models before it takes requests."""

COUNTED_S = 0.3
"""The seconds between two writes of deferred counts."""

LATEST_S = 0.001
"""The window of the profile that `load_of` asks for, in seconds; its percentiles are not read."""

SHUTTING_DOWN = "the server is shutting down"

Read = TypeVar("Read")


@dataclass(slots=True)
class Services:
    """What all endpoints of a worker share; `server.connect` makes it.

    `client` and `catalogue` live from start-up to shutdown, `traces` and `counting` from the start on.
    """

    settings: Settings
    client: HostClient
    catalogue: Catalogue
    admission: Admission
    key_file: KeyFile | None
    limits: KeyLimits
    arriving: ArrivingBodies
    work: Work
    requests: RequestLog
    response_store: ResponseStore
    background: BackgroundResponses
    sounds: SoundMemory
    media: MediaFetcher
    feed: StatusFeed
    offline: OfflineStore
    stores: VectorStores
    pulls: Pulls
    usage: UsageLog
    new_trace_sender: Callable[[], TraceSender | None]
    traces: TraceSender | None = None
    counting: asyncio.Task[None] | None = None

    async def start(self, process: WorkerProcess) -> None:
        """Start to follow the engine.

        A worker that joins a server which serves already waits until it serves the same models, so that it
        refuses no request that another worker takes; it does not wait for models that the host still loads.
        """
        await self._open_stores()
        self.client.on_mismatch(process.state.set_mismatched_host)
        await self.client.start()
        await self.catalogue.start()
        await self.catalogue.caught_up(CATCH_UP_S)
        self.traces = self.new_trace_sender()
        if self.traces is not None:
            self.requests.listeners.append(self.traces.add)
        self.stores.start()
        process.drain.at_start(self.feed.end)
        process.drain.at_start(partial(self._begin_end, process.state))
        process.drain.before_deadline(self.end_streams)
        self.counting = asyncio.create_task(self._count(), name="counting")

    async def _open_stores(self) -> None:
        """One that cannot be opened answers 503 on its own paths, until a later use opens it."""
        for opening in (self.response_store.open, self.offline.start, self.usage.open):
            try:
                await opening()
            except RuntimeError as error:
                log.error("%s; models are served without that", error)

    async def admit(self, req: falcon.asgi.Request, any_content: bool = False) -> bytes:
        """The body of a request, which holds a permit of its tenant from then on until its exchange ends.

        It is JSON, unless `any_content` allows other types and compressed bodies.
        """
        if is_here(req):
            body = await body_here(req, any_content)
            self.enter(req.scope["braid.exchange"])
            return body
        body = await self.admit_read(req, joined, any_content)
        return body if any_content else body.removeprefix(BYTE_ORDER_MARK)

    async def admit_read(
        self,
        req: falcon.asgi.Request,
        read: Callable[[AsyncIterator[bytes]], Awaitable[Read]],
        any_content: bool = True,
    ) -> Read:
        """Admits as `admit` does, and gives what `read` makes of the body while it arrives."""
        body = await self.arriving.read(req, read, any_content)
        self.enter(req.scope["braid.exchange"])
        return body

    def enter(self, exchange: Exchange) -> None:
        """Give a request a permit of its tenant until its exchange ends, and count it for its key.

        Raises Overloaded without a place, KeyLimited where the key has had its requests or tokens.
        """
        exchange.at_end(self.admission.enter(exchange.tenant))
        if exchange.key is not None and not exchange.bounds:  # those of a line of a batch are known
            self.limits.admit(exchange.key, exchange)

    def of(self, exchange: Exchange) -> Services:
        """These services with the models that the key of a request may use."""
        if exchange.key is None or exchange.key.allows_all:
            return self
        services = copy(self)
        services.catalogue = AllowedModels(self.catalogue, exchange.key.allows)
        return services

    async def note_affinity(self, req: falcon.asgi.Request, body: bytes) -> None:
        """Where there are several engines: note in the exchange what keeps a session's requests at one."""
        if self.settings.num_engines > 1:
            exchange, headers = req.scope["braid.exchange"], req.headers
            exchange.affinity = await exchange.off_loop(
                lambda: affinity_key(headers, fields_of(body)), len(body)
            )

    def for_batches(self, max_requests: int) -> Services:
        """These services with other places: requests of batches take none of those of HTTP requests."""
        services = copy(self)
        services.admission = Admission(max_requests)
        return services

    async def load_of(self, model: str | None) -> tuple[int, int]:
        """Sequences of a model that run and that wait in its engines; without a name, of the default one.

        Raises BraidError where no engine has it.
        """
        found = await self.client.profile(self.catalogue.model_of(model), LATEST_S)
        return found.running, found.waiting

    def route(self, exchange: Exchange) -> RequestClient:
        """The way to the engine for the requests of one call."""
        return self.client.route(exchange.affinity)

    def prepare(
        self, pipeline: Pipeline, request: Any, exchange: Exchange, client: RequestClient | None = None
    ) -> Call:
        """The call of a pipeline for a request of this exchange, by `Pipeline.prepare`: it has the exchange's
        tenant and its trace, so that engines know whose it is.

        `client` is the way of requests that were sent for the same call before.  May be called in any thread.
        Raises RequestError.
        """
        client = client or self.route(exchange)
        return pipeline.prepare(request, client, exchange.tenant, trace=exchange.trace)

    async def close(self) -> None:
        await self.background.close(self.settings.grace_s)
        self.work.close()
        await self.response_store.close()
        await self.stores.close()
        await self.offline.close()
        await self.pulls.close()
        await self.catalogue.close()
        await self.client.close()
        if self.counting is not None:
            self.counting.cancel()
        deferred.catch_up()
        self.requests.flush()
        await self.usage.close()
        if self.traces is not None:
            await asyncio.to_thread(self.traces.close)

    async def _count(self) -> None:
        while True:
            await asyncio.sleep(COUNTED_S)
            deferred.catch_up()
            self.requests.flush()
            await self.usage.flush()
            if self.key_file is not None and self.key_file.has_changed():
                await asyncio.to_thread(self.key_file.refresh)

    def _begin_end(self, state: WorkerState) -> None:
        """End requests that wait for the end of a pause, where the whole server ends and not one worker."""
        if state.server_ends:
            self.client.end(SHUTTING_DOWN)

    def end_streams(self) -> None:
        """End every request in flight with an error that its client can read."""
        self.background.draining = True
        self.client.abort_all(Unavailable(SHUTTING_DOWN))
