"""The engine host as a thread of this process, with the pipelines of its models."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from pipelines.base.cancellation import ClientGone
from pipelines.base.errors import ModelNotFound, Unavailable
from pipelines.host.first_run.new_models import HostOptions
from pipelines.host.in_process import InProcessClient
from pipelines.host.models.loader import ModelSource
from pipelines.host.models.residents import MemoryLimits
from pipelines.local.loop_thread import CLOSED
from pipelines.repository.model_folders import ModelFolder, scan
from pipelines.telemetry import deferred
from pipelines.telemetry.request_trace import RequestTrace
from pipelines.wire.lora_modules import LoraModule
from pipelines.wire.messages import Status
from pipelines.worker.call import Call
from pipelines.worker.catalogue import Catalogue
from pipelines.worker.model_choice import Ability, find_pipeline
from pipelines.worker.pipeline import Pipeline

T = TypeVar("T")

MAX_AT_ONCE = 256
"""Calls that are with the engine at a time; further ones wait."""
LOAD_S = 60.0
"""How long a request waits for room in memory, while others use it."""
START_S = 60.0
"""How long the engine host may take until it knows its models; loading them comes later."""

_counting = threading.Lock()
"""Held while metrics are written: the registry of metrics belongs to one thread at a time."""


@dataclass(frozen=True)
class EngineOptions:
    """Which models are found, and how they are run.

    `names`: those that are used; None: all.  `device`: what every model runs on instead of its own.
    `adapters`: the folders of adapters by their names, beside those of the models' own folders.  `cache`: the
    folder for what can be made again; None: the user's own.  `max_loaded_gb`: GiB that loaded models take.
    """

    models: Path
    names: frozenset[str] | None = None
    device: str | None = None
    adapters: Mapping[str, str] | None = None
    cache: Path | None = None
    max_loaded_gb: float | None = None

    def scan(self, folder: Path) -> list[ModelFolder]:
        """The models.  Raises FileNotFoundError and ValueError."""
        found = scan(folder, cache=self.cache, device=self.device)
        return [each for each in found if self.names is None or each.name in self.names]

    def source(self) -> ModelSource:
        """The repository in which the engine host finds its models, and how it builds them."""
        modules = [LoraModule(name, path) for name, path in (self.adapters or {}).items()]
        return HostOptions(self.models, self.device, self.cache, modules=modules).source(self.scan)

    def check(self) -> None:
        """Raise FileNotFoundError where there is no such folder or file, ModelNotFound without a model."""
        found = self.scan(self.models)
        if missing := (self.names or frozenset()) - {each.name for each in found}:
            raise ModelNotFound(f"The model `{min(missing)}` does not exist", field="names")
        if not found:
            raise ModelNotFound(f"{self.models} holds no models", field="models")


class LocalRequest:
    """One request: what it began ends with it.  Belongs to the event loop."""

    tenant = ""
    trace: RequestTrace | None = None

    def __init__(self) -> None:
        self._ends = ExitStack()

    def at_end(self, callback: Callable[[], Any]) -> None:
        self._ends.callback(callback)

    def when_gone(self, callback: Callable[[], Any]) -> None:
        """Nothing: who calls waits for the reply, or closes the request."""

    async def long_work(self, work: Callable[[], T], num_bytes: int = 0) -> T:
        return await asyncio.to_thread(work)

    def close(self) -> None:
        self._ends.close()
        with _counting:
            deferred.catch_up()

    def __enter__(self) -> LocalRequest:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class LocalEngine:
    """Starts the engine, finds the models of requests and ends what is in flight.

    Belongs to the event loop of its `start`.
    """

    def __init__(self, options: EngineOptions) -> None:
        self.client = InProcessClient(
            options.source(), limits=MemoryLimits.of(options.max_loaded_gb, 0, LOAD_S, on_request=True)
        )
        self.catalogue = Catalogue(self.client)
        self._places = asyncio.Semaphore(MAX_AT_ONCE)
        self._held = ExitStack()
        self._is_ready = asyncio.Event()

    async def start(self) -> None:
        """Start the engine; a model that is the only one is loaded, others by their first request.

        Raises Unavailable.
        """
        self.client.on_status(self._take)
        await self.catalogue.start()
        await self.client.start()
        try:
            async with asyncio.timeout(START_S):
                await self._is_ready.wait()
        except TimeoutError:
            raise Unavailable("the engine did not start; the log has more") from None
        if len(self.catalogue.cards()) == 1:
            await self.catalogue.load(name=None, at_end=self._held.callback)

    def _take(self, status: Status | None) -> None:
        if status is not None and status.state == "ready":
            self._is_ready.set()

    async def close(self) -> None:
        """End every request with an error, and the engine."""
        self.client.abort_all(Unavailable(CLOSED))
        self._held.close()
        await self.catalogue.close()
        await self.client.close()

    async def find(self, model: str | None, ability: Ability, request: LocalRequest) -> Pipeline:
        """The pipeline of a model, which stays loaded until the request ends; as for requests over HTTP."""
        return await find_pipeline(self.catalogue, model, ability, request.at_end, _awaited)

    async def begin(self, pipeline: Pipeline, given: Callable[[], Any], request: LocalRequest) -> Call:
        """A call that has begun, with the input that `given` makes in a thread; it ends with the request.

        Raises RequestError.
        """
        call = await request.long_work(lambda: pipeline.prepare(given(), self.client))
        request.at_end(call.close)
        call.start()
        return call

    async def together(self, works: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
        """What each returns, in order; the first error ends the others."""
        tasks = [asyncio.create_task(self.in_turn(each)) for each in works]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def in_turn(self, work: Callable[[], Awaitable[T]]) -> T:
        """What `work` returns, at most MAX_AT_ONCE at a time.  Raises Unavailable when all is closed."""
        async with self._places:
            try:
                return await work()
            except ClientGone:
                raise Unavailable(CLOSED) from None


async def _awaited(work: Coroutine[Any, Any, Pipeline]) -> Pipeline:
    return await work
