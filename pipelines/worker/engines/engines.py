"""Several engine hosts in the place of one: a request goes to one of them, a change of models to all."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from pipelines.base.errors import BraidError, NotFound, Unavailable
from pipelines.telemetry.request_record import ErrorRecord, RequestRecord
from pipelines.wire.client import EngineClient
from pipelines.wire.messages import Inspected, PauseMode, Profiled, Status
from pipelines.wire.socket_link import over_socket
from pipelines.worker.engines.links import EngineLinks
from pipelines.worker.engines.route import Route

log = logging.getLogger("braid.wire")

T = TypeVar("T")


def over_sockets(paths: Sequence[str], max_ahead: int) -> Engines:
    """The engines whose hosts listen at these unix sockets, now or later."""
    num = len(paths)
    return Engines(
        [over_socket(path, itertools.count(num + i, num)) for i, path in enumerate(paths)], max_ahead
    )


class Engines:
    """Each host is connected to, and lost, by itself; what is served is what at least one of them has.

    A host that is away learns nothing meanwhile: it comes back with what the model repository holds.
    """

    def __init__(self, links: Sequence[EngineClient], max_ahead: int) -> None:
        """The ids of the links' requests are as `EngineLinks` describes."""
        self._links = EngineLinks(links, max_ahead)
        self._status: Status | None = None
        self._callbacks: list[Callable[[Status | None], None]] = []

    async def start(self) -> None:
        """Start to connect, in the background; returns before a host was found."""
        for engine, link in enumerate(self._links.all):
            link.on_status(partial(self._take_status, engine))
            await link.start()

    async def close(self) -> None:
        for link in self._links.all:
            await link.close()

    @property
    def status(self) -> Status | None:
        """What all serve together; None while every host is away."""
        return self._status

    @property
    def connected(self) -> bool:
        return any(link.connected for link in self._links.all)

    @property
    def num_in_flight(self) -> int:
        return sum(link.num_in_flight for link in self._links.all)

    def on_status(self, callback: Callable[[Status | None], None]) -> None:
        """Call `callback` whenever a host's status changes, with None when the last host is gone."""
        self._callbacks.append(callback)

    def on_mismatch(self, callback: Callable[[int], None]) -> None:
        for link in self._links.all:
            link.on_mismatch(callback)

    def route(self, key: str | None) -> Route:
        """The way of one call's requests; `key` is what those of its session have alike."""
        return Route(self._links, key)

    def report_use(self, instance_ids: list[int], status: int = 0) -> bool:
        """Name to each host its model instances that this worker calls; false when no host listens."""
        merged, reported = self._links.merged, False
        for engine, link in enumerate(self._links.all):
            used, followed = merged.in_use(engine, instance_ids), merged.followed(engine, status)
            reported = link.report_use(used, followed) or reported
        return reported

    def abort_all(self, error: BraidError) -> None:
        for link in self._links.all:
            link.abort_all(error)

    async def profile(self, model: str, recent_s: float = math.inf) -> Profiled:
        """The profiles of all engines that have the model ready; the nodes' names say which one.

        Seconds of the hosts' phases are sums.  Raises as `EngineClient.profile`.
        """
        engines = [engine for engine, link in enumerate(self._links.all) if _has(link, model)]
        asked = [self._links.all[engine].profile(model, recent_s) for engine in engines]
        found = await asyncio.gather(*asked or [self._links.listening[0].profile(model, recent_s)])
        return _summed(dict(zip(engines or [0], found, strict=True)))

    async def inspect(self, model: str) -> list[Inspected]:
        """What each host does now that replies, under its number.

        Raises Unavailable when no host listens or none replies.
        """
        replies, errors = await self._at_known(lambda link: link.inspect(model))
        if errors and not replies:
            raise errors[0]
        return [replace(one, engine=str(engine)) for engine, each in replies.items() for one in each]

    async def cancel(self, name: str, account: str | None = None) -> int:
        """Cancels as `EngineClient.cancel` does, in all hosts."""
        replies, errors = await self._at_known(lambda link: link.cancel(name, account))
        if errors and not any(replies.values()):
            raise errors[0]
        return sum(replies.values())

    def report(self, requests: Sequence[RequestRecord], errors: Sequence[ErrorRecord]) -> None:
        """Have one of the hosts hold the records of requests that have ended."""
        self._links.first_known.report(requests, errors)

    async def pause(self, mode: PauseMode, *, clears_cache: bool) -> None:
        """Pauses as `EngineClient.pause` does, in all hosts or in none."""
        async with contextlib.AsyncExitStack() as held:
            await self._at_all(
                lambda link: held.enter_async_context(link.pausing(mode, clears_cache=clears_cache))
            )

    def end(self, reason: str) -> None:
        """Note in all links that the server ends, as `EngineClient.end` does."""
        for link in self._links.all:
            link.end(reason)

    async def resume(self) -> None:
        await self._at_all(lambda link: link.resume())

    async def sleep(self) -> list[str]:
        """The models that are loaded in one host at least."""
        return sorted({name for names in await self._at_all(lambda link: link.sleep()) for name in names})

    async def wake_up(self) -> list[str]:
        """The models that were loaded in one host at least."""
        return sorted({name for names in await self._at_all(lambda link: link.wake_up()) for name in names})

    async def reset_prefix_cache(self) -> None:
        await self._at_all(lambda link: link.reset_prefix_cache())

    @contextlib.asynccontextmanager
    async def wanted(self, model: str, by_hand: bool = False) -> AsyncIterator[None]:
        """The model is loaded while the context lasts: in one host at least, in all where a client loads it.

        Raises as `EngineClient.wanted`.
        """
        links = self._links.listening
        async with contextlib.AsyncExitStack() as held:
            loads = [
                asyncio.create_task(held.enter_async_context(link.wanted(model, by_hand))) for link in links
            ]
            held.push_async_callback(_cancel, loads)
            ended = await (asyncio.gather(*loads, return_exceptions=True) if by_hand else _first(loads))
            _check(links, ended)
            yield

    async def unload(self, model: str) -> None:
        await self._at_all(lambda link: link.unload(model))

    async def load_adapter(self, name: str, path: str, model: str | None, in_place: bool) -> None:
        await self._at_all(lambda link: link.load_adapter(name, path, model, in_place))

    async def unload_adapter(self, name: str) -> None:
        await self._at_all(lambda link: link.unload_adapter(name))

    async def rescan(self) -> bool:
        """Have all hosts look at the model repository; whether one loaded or removed anything."""
        return any(await self._at_all(lambda link: link.rescan()))

    def keep(self, model: str, seconds: float) -> None:
        for link in self._links.listening:
            link.keep(model, seconds)

    async def _at_all(self, ask: Callable[[EngineClient], Awaitable[T]]) -> list[T]:
        """The replies of all hosts that listen.  Raises the first error of one that is still there.

        What one host did not find is no error where another one did.
        """
        links = self._links.listening
        return _check(links, await asyncio.gather(*map(ask, links), return_exceptions=True))

    async def _at_known(
        self, ask: Callable[[EngineClient], Awaitable[T]]
    ) -> tuple[dict[int, T], list[BraidError]]:
        """The replies of the hosts that are there, by engine, draining ones too; and the errors of others."""
        known = [engine for engine, link in enumerate(self._links.all) if link.status is not None]
        asked = (ask(self._links.all[engine]) for engine in known)
        replies: dict[int, T] = {}
        errors: list[BraidError] = [] if known else [Unavailable("the engine is starting")]
        for engine, reply in zip(known, await asyncio.gather(*asked, return_exceptions=True), strict=True):
            if isinstance(reply, BraidError):
                errors.append(reply)
            elif isinstance(reply, BaseException):
                raise reply
            else:
                replies[engine] = reply
        return replies, errors

    def _take_status(self, engine: int, status: Status | None) -> None:
        self._status = self._links.merged.take(engine, status)
        for callback in self._callbacks:
            try:
                callback(self._status)
            except Exception:  # a callback's fault must not end the connection
                log.exception("a callback for the engines' status failed")


def _has(link: EngineClient, model: str) -> bool:
    models = link.status.models if link.status is not None else []
    return any(one.name == model and one.instance_id for one in models)


def _check(links: Sequence[EngineClient], replies: Sequence[T | BaseException]) -> list[T]:
    """The replies that are no errors.  Raises the first error, but where another host has done it: then that
    of a host that is gone, or that knew nothing of it, is none.
    """
    done = [reply for reply in replies if not isinstance(reply, BaseException)]
    for link, reply in zip(links, replies, strict=False):
        is_excused = isinstance(reply, NotFound) or (isinstance(reply, BraidError) and link.status is None)
        if isinstance(reply, BaseException) and not (done and is_excused):
            raise reply
    return done


async def _first(loads: Sequence[asyncio.Task[None]]) -> list[BaseException | None]:
    """[None] once one has succeeded; the errors of all where none does."""
    waiting = set(loads)
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if any(load.exception() is None for load in done):
            return [None]
    return [load.exception() for load in loads]


async def _cancel(loads: Sequence[asyncio.Task[None]]) -> None:
    for load in loads:
        load.cancel()
    await asyncio.gather(*loads, return_exceptions=True)


def _summed(found: dict[int, Profiled]) -> Profiled:
    engines = {
        f"{node} (engine {engine})": steps
        for engine, profiled in found.items()
        for node, steps in profiled.engines.items()
    }
    phases = dict.fromkeys(phase for profiled in found.values() for phase in profiled.host)
    host = {phase: sum(one.host.get(phase, 0.0) for one in found.values()) for phase in phases}
    running, waiting = sum(one.running for one in found.values()), sum(one.waiting for one in found.values())
    return Profiled(0, engines, host, running=running, waiting=waiting)
