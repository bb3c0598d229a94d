"""What a worker asks of the engine host, and waits for: what it does, profiles, loads, unloads, resets."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from collections.abc import AsyncIterator, Iterator
from typing import cast

from pipelines.base.errors import BraidError, Unavailable
from pipelines.wire.connection import Connect, HostConnection, Link
from pipelines.wire.host_errors import host_error, lost_error
from pipelines.wire.messages import (
    Cancelled,
    CancelRequest,
    Followed,
    FromTrainers,
    Inspect,
    Inspected,
    KeepModel,
    LeavePause,
    LoadAdapter,
    ModelSettled,
    Pause,
    PauseMode,
    Profile,
    Profiled,
    ReleaseModel,
    Replies,
    Rescan,
    ResetPrefixCache,
    Resume,
    Sleep,
    ToWorker,
    UnloadAdapter,
    UnloadModel,
    WakeUp,
    WantModel,
)

REPLY_S = 10.0
"""How long a worker waits for a reply that the host gives between two steps."""

Asked = WantModel | UnloadModel | LoadAdapter | UnloadAdapter | Rescan
"""What `ModelSettled` replies to."""


class HostQuestions(HostConnection):
    """Each question has an id, and a future in `_replies` until its reply came or the connection ended."""

    def __init__(self, connect: Connect, ids: Iterator[int] | None = None) -> None:
        super().__init__(connect)
        self._ids = itertools.count(1) if ids is None else ids
        self._replies: dict[int, asyncio.Future[Replies]] = {}
        self._pauses: set[int] = set()  # ids of requests that wait for their pause
        self._end: str | None = None  # why nothing is resumed any more

    async def profile(self, model: str, recent_s: float = math.inf) -> Profiled:
        """Where the time of a model's steps goes, in the instance that new calls use.

        Totals since it was loaded; percentiles of the last `recent_s` seconds, as far as they are recorded.
        Raises NotFound, and Unavailable when no host listens or it does not reply within REPLY_S.
        """
        request = Profile(next(self._ids), model, self._instance_of(model), recent_s)
        profiled = cast(Profiled, await self._reply_to(request, REPLY_S))
        if profiled.error is not None:
            raise host_error(profiled)
        return profiled

    async def inspect(self, model: str) -> list[Inspected]:
        """What the host does now, with the engine nodes of a model where it is in memory; of each host one.

        Raises Unavailable when no host listens or it does not reply within REPLY_S.
        """
        request = Inspect(next(self._ids), model)
        return [cast(Inspected, await self._reply_to(request, REPLY_S, self._known_link()))]

    async def cancel(self, name: str, account: str | None = None) -> int:
        """End what is in flight of the HTTP requests of this id, of any worker: how many submissions it was.

        With an `account` only its own.

        Raises Unavailable when no host listens or it does not reply within REPLY_S.
        """
        request = CancelRequest(next(self._ids), name, account)
        return cast(Cancelled, await self._reply_to(request, REPLY_S, self._known_link())).num_cancelled

    async def pause(self, mode: PauseMode, *, clears_cache: bool) -> None:
        """Have no engine generate until `resume`; returns when none does, however long that takes.

        Where it is cancelled before, engines go on.  Raises Unavailable when no host listens, and when the
        server ends.
        """
        async with self.pausing(mode, clears_cache=clears_cache):
            pass

    @contextlib.asynccontextmanager
    async def pausing(self, mode: PauseMode, *, clears_cache: bool) -> AsyncIterator[None]:
        """No engine generates in the context, nor until `resume` after it; an error in it ends the pause."""
        if self._end is not None:
            raise Unavailable(self._end)
        request = Pause(next(self._ids), mode, clears_cache)
        self._pauses.add(request.request_id)
        try:
            await self._reply_to(request, timeout_s=None)
            yield
        except BaseException:
            self._send(LeavePause(request.request_id))
            raise
        finally:
            self._pauses.discard(request.request_id)

    def end(self, reason: str) -> None:
        """Note that the server ends, for `reason`: pauses fail, those that wait and later ones."""
        self._end = reason
        for request_id in self._pauses:
            reply = self._replies.get(request_id)
            if reply is not None and not reply.done():
                reply.set_exception(Unavailable(reason))

    async def resume(self) -> None:
        """Have engines generate again.  Raises Unavailable when no host listens or it does not reply."""
        await self._reply_to(Resume(next(self._ids)), REPLY_S)

    async def sleep(self) -> list[str]:
        """Have no request load a model until `wake_up`; the models that are loaded, which is to be changed.

        Raises Unavailable when no host listens or it does not reply.
        """
        return cast(Followed, await self._reply_to(Sleep(next(self._ids)), REPLY_S)).models

    async def wake_up(self) -> list[str]:
        """Have requests load models again; the models that were loaded before.  Raises as `sleep`."""
        return cast(Followed, await self._reply_to(WakeUp(next(self._ids)), REPLY_S)).models

    async def reset_prefix_cache(self) -> None:
        """Empty the prefix caches of all models; requests in flight go on with the blocks they have.

        Raises Unavailable when no host listens or it does not reply within REPLY_S.
        """
        await self._reply_to(ResetPrefixCache(next(self._ids)), REPLY_S)

    @contextlib.asynccontextmanager
    async def wanted(self, model: str, by_hand: bool = False) -> AsyncIterator[None]:
        """A model is loaded, and stays so inside.

        `by_hand`: a client says so, rather than a request that needs it.  Raises the host's BraidError where
        it cannot be loaded, and Unavailable when no host listens.
        """
        async with self._settled(WantModel(next(self._ids), model, by_hand)):
            yield

    async def unload(self, model: str) -> None:
        """Unload a model until it is `wanted` by hand; returns when its calls have ended and it is closed.

        Raises NotFound, and Unavailable when no host listens.
        """
        async with self._settled(UnloadModel(next(self._ids), model)):
            pass

    async def load_adapter(self, name: str, path: str, model: str | None, in_place: bool) -> None:
        """Register an adapter; returns when every worker knows it.  Raises the host's BraidError."""
        async with self._settled(LoadAdapter(next(self._ids), name, path, model, in_place)):
            pass

    async def unload_adapter(self, name: str) -> None:
        """No new request uses an adapter; those that run with it go on.  Raises the host's BraidError."""
        async with self._settled(UnloadAdapter(next(self._ids), name)):
            pass

    async def rescan(self) -> bool:
        """Have the host look at the model repository; whether it loaded or removed anything.

        Raises Unavailable with the problems of what could not be loaded.
        """
        async with self._settled(Rescan(next(self._ids))) as settled:
            return settled.has_changed

    def keep(self, model: str, seconds: float) -> None:
        """From now on a model stays loaded for this time without calls.  Raises Unavailable."""
        self._listening_link().send(KeepModel(model, seconds))

    def received(self, message: ToWorker) -> None:
        if isinstance(message, Replies):
            self._set_reply(message)
        else:
            super().received(message)

    def lost(self, error: BraidError | None = None) -> None:
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(error or lost_error())
        super().lost(error)

    @contextlib.asynccontextmanager
    async def _settled(self, request: Asked) -> AsyncIterator[ModelSettled]:
        """The host's reply, however long it takes; at the end the host is informed."""
        try:
            settled = cast(ModelSettled, await self._reply_to(request, timeout_s=None))
            if settled.error is not None:
                raise host_error(settled)
            yield settled
        finally:
            self._send(ReleaseModel(request.request_id))

    async def _reply_to(
        self,
        request: Profile | Inspect | CancelRequest | ResetPrefixCache | FromTrainers | Asked,
        timeout_s: float | None,
        link: Link | None = None,
    ) -> Replies:
        link = link or self._listening_link()
        reply: asyncio.Future[Replies] = asyncio.get_running_loop().create_future()
        self._replies[request.request_id] = reply
        link.send(request)
        try:
            async with asyncio.timeout(timeout_s):
                return await reply
        except TimeoutError:
            raise Unavailable("the engine is in a long step; try again") from None
        finally:
            del self._replies[request.request_id]

    def _set_reply(self, message: Replies) -> None:
        reply = self._replies.get(message.request_id)
        if reply is not None and not reply.done():
            reply.set_result(message)

    def _instance_of(self, model: str) -> int:
        models = self._status.models if self._status is not None else []
        return next((one.instance_id for one in models if one.name == model), 0)
