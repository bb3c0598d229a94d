"""The worker's end of the wire: one `EngineClient` per worker process, used from one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, cast

from pipelines.errors import BraidError, EngineError, NotFound, Overloaded, RequestError, Unavailable
from pipelines.wire.messages import (
    SCHEMA,
    Abort,
    Frame,
    Hello,
    Inferred,
    InUse,
    KeepModel,
    ModelSettled,
    ModelStatus,
    PrefixCacheReset,
    Profile,
    Profiled,
    ReleaseModel,
    Rescan,
    ResetPrefixCache,
    Status,
    Submit,
    SubmitTensors,
    ToHost,
    TokenUpdate,
    ToWorker,
    UnloadModel,
    WantModel,
    Welcome,
)
from pipelines.wire.sampling_params import SamplingParams
from pipelines.wire.tensor_codec import Arrays, pack, unpack
from pipelines.wire.update_queue import PendingReply, UpdateQueue

__all__ = ["EngineClient", "Link", "ModelStatus", "Status", "TokenUpdate", "UpdateQueue"]

log = logging.getLogger("braid.wire")

FIRST_DELAY_S, LONGEST_DELAY_S = 0.05, 0.5
"""Between two attempts to reach the host."""
REPLY_S = 10.0
"""How long the client waits for a reply that the host gives between two steps."""

ERRORS: dict[int, type[BraidError]] = {
    error.status: error for error in (RequestError, NotFound, Overloaded, Unavailable, EngineError)
}


class Link(Protocol):
    """A live connection to a host.  Its maker calls `client.received` and, at its end, `client.lost`."""

    def send(self, message: ToHost) -> None: ...

    def close(self) -> None: ...


Reply = Profiled | PrefixCacheReset | ModelSettled
Connect = Callable[["EngineClient"], Awaitable[Link]]
"""Reach a host, or raise OSError."""


class EngineClient:
    """Sends requests to the engine host and puts what comes back into each request's queue.

    A request is in `_queues` from `submit` until its last choice ended; `_status` is None exactly while no
    host of this version is connected.  After a lost connection nothing is sent again: the requests failed.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._link: Link | None = None
        self._status: Status | None = None
        self._queues: dict[int, UpdateQueue | PendingReply] = {}
        self._replies: dict[int, asyncio.Future[Reply]] = {}
        self._ids = itertools.count(1)
        self._callbacks: list[Callable[[Status | None], None]] = []
        self._mismatch_callbacks: list[Callable[[int], None]] = []
        self._mismatched_pid: int | None = None
        self._lost = asyncio.Event()
        self._had_status = False  # whether this connection brought one
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to connect, in the background; returns before a host was found."""
        self._task = asyncio.create_task(self._stay_connected(), name="engine-client")

    async def close(self) -> None:
        """Hang up.  Requests in flight fail; the host frees what they held."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._link is not None:
            self._link.close()
        self.lost(Unavailable("the server is shutting down"))

    @property
    def status(self) -> Status | None:
        """The last status of the host and its models; None while it is away."""
        return self._status

    @property
    def num_in_flight(self) -> int:
        return len(self._queues)

    def on_status(self, callback: Callable[[Status | None], None]) -> None:
        """Call `callback` with every Status that comes, and with None when the host is gone."""
        self._callbacks.append(callback)

    @property
    def connected(self) -> bool:
        """Whether a host of this version listens; its first status may still be on its way."""
        return self._link is not None and self._mismatched_pid is None

    def on_mismatch(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with the pid of each host whose messages are those of another version of Braid.

        The client waits for another host meanwhile, as if none listened.
        """
        self._mismatch_callbacks.append(callback)

    def submit(
        self,
        model: str,
        instance_id: int,
        node: str,
        prompts: list[list[int]],
        params: SamplingParams,
        *,
        update_queue: UpdateQueue,
        n: int = 1,
        cache_salt: str = "",
        tenant: str = "",
        context: int | None = None,
    ) -> int:
        """Send one request; its updates go to `update_queue`, a fresh one.  Gives back the request's id.

        Raises Unavailable when no host listens or it is draining, RequestError when the prompts are longer
        than the wire carries.  Returns before the host has read it: later errors come through the queue.
        """
        link = self._listening_link()
        request_id = next(self._ids)
        try:
            link.send(
                Submit(
                    *(request_id, model, instance_id, node, prompts, params),
                    *(n, cache_salt, tenant, context),
                )
            )
        except ValueError as error:
            raise RequestError(f"the prompts are too long: {error}") from error
        update_queue.open.update(range(len(prompts) * n))
        self._queues[request_id] = update_queue
        return request_id

    def infer(
        self,
        model: str,
        instance_id: int,
        node: str,
        inputs: Arrays,
        outputs: list[str] | None,
        *,
        slot: PendingReply,
        tenant: str = "",
        hold: bool = False,
    ) -> int:
        """Send one request to tensor models; its answer goes to `slot`, a fresh one.  Gives the request's id.

        Raises Unavailable as `submit` does, RequestError when the inputs are more than the wire carries or
        hold no numbers.  `outputs` None is all.  The arrays are copied before this returns.
        """
        link = self._listening_link()
        packed = pack("inputs", inputs)
        request_id = next(self._ids)
        try:
            link.send(SubmitTensors(request_id, model, instance_id, node, packed, outputs, tenant, hold))
        except ValueError as error:
            raise RequestError(f"the names of the tensors are too long: {error}") from error
        slot.open.add(0)
        self._queues[request_id] = slot
        return request_id

    async def profile(self, model: str, recent_s: float = math.inf) -> Profiled:
        """Where the time of a model's steps goes, in the instance that new calls use.

        Totals since it was loaded; percentiles of the last `recent_s` seconds, as far as they are recorded.
        Raises NotFound, and Unavailable when no host listens or it does not reply within REPLY_S.
        """
        request = Profile(next(self._ids), model, self._instance_of(model), recent_s)
        profiled = cast(Profiled, await self._reply_to(request, REPLY_S))
        if profiled.error is not None:
            raise _error(profiled)
        return profiled

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

    async def rescan(self) -> bool:
        """Have the host look at the model repository; whether it loaded or removed anything.

        Raises Unavailable with the problems of what could not be loaded.
        """
        async with self._settled(Rescan(next(self._ids))) as settled:
            return settled.has_changed

    def keep(self, model: str, seconds: float) -> None:
        """From now on a model stays loaded for this time without calls.  Raises Unavailable."""
        self._listening_link().send(KeepModel(model, seconds))

    @contextlib.asynccontextmanager
    async def _settled(self, request: WantModel | UnloadModel | Rescan) -> AsyncIterator[ModelSettled]:
        """The host's reply, however long it takes; at the end the host is informed."""
        try:
            settled = cast(ModelSettled, await self._reply_to(request, None))
            if settled.error is not None:
                raise _error(settled)
            yield settled
        finally:
            if self._link is not None:
                self._link.send(ReleaseModel(request.request_id))

    async def _reply_to(
        self,
        request: Profile | ResetPrefixCache | WantModel | UnloadModel | Rescan,
        timeout_s: float | None,
    ) -> Reply:
        link = self._listening_link()
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._replies[request.request_id] = reply
        link.send(request)
        try:
            return await asyncio.wait_for(reply, timeout_s)
        except TimeoutError:
            raise Unavailable("the engine is in a long step; try again") from None
        finally:
            del self._replies[request.request_id]

    def report_use(self, instance_ids: list[int], status: int = 0) -> bool:
        """Name to the host the model instances that this worker calls; false when no host listens."""
        if self._link is None or self._status is None:
            return False
        self._link.send(InUse(instance_ids, status))
        return True

    def abort(self, request_id: int, choice: int = -1) -> None:
        """Cancel a choice (-1: the request): the host frees it within a step.

        The update queue counts it as ended.  A request or choice that has ended is left alone.
        """
        update_queue = self._queues.get(request_id)
        if update_queue is None or (choice >= 0 and choice not in update_queue.open):
            return
        if choice < 0:
            update_queue.end()
        else:
            update_queue.drop(choice)
        self._remove_ended(request_id, update_queue)
        if self._link is not None:
            self._link.send(Abort(request_id, choice))

    def release(self, request_id: int) -> None:
        """The outputs that the host holds of a request are not needed any more."""
        if self._link is not None:
            self._link.send(Abort(request_id))

    def abort_all(self, error: BraidError) -> None:
        """End every request in flight with `error`, here and in the host."""
        for request_id, update_queue in list(self._queues.items()):
            update_queue.fail(error)
            self._queues.pop(request_id)
            if self._link is not None:
                self._link.send(Abort(request_id))

    def received(self, message: ToWorker) -> None:
        """For links: one message came."""
        if isinstance(message, Frame):
            for update in message.updates:
                self._deliver(update)
        elif isinstance(message, Inferred):
            self._answer(message)
        elif isinstance(message, Reply):
            self._set_reply(message)
        elif isinstance(message, Welcome):
            self._compare(message)
        else:
            self._set_status(message)

    def lost(self, error: BraidError | None = None) -> None:
        """For links: the connection ended.  Every request in flight fails now."""
        self._link = None
        self._lost.set()
        failed, self._queues = self._queues, {}
        if failed:
            log.warning("connection to the engine lost: %d requests fail", len(failed))
        error = error or Unavailable("the engine died while it worked on this; it is being restarted")
        for update_queue in failed.values():
            update_queue.fail(error)
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(error)
        if self._status is not None:
            self._set_status(None)

    async def _stay_connected(self) -> None:
        """Connect again after each loss, the more rarely the longer no host gives a status."""
        delay_s = FIRST_DELAY_S
        while True:
            self._lost.clear()
            self._had_status = False
            try:
                link = await self._connect(self)
            except OSError:
                pass
            else:
                link.send(Hello(os.getpid(), SCHEMA))
                self._link = link
                await self._lost.wait()
                self._link = None  # again: the connection may have ended before `_connect` returned
            delay_s = FIRST_DELAY_S if self._had_status else min(delay_s * 1.5, LONGEST_DELAY_S)
            await asyncio.sleep(delay_s)

    def _compare(self, message: Welcome) -> None:
        """Hang up on a host of another version."""
        if message.schema == SCHEMA:
            self._mismatched_pid = None
            return
        if self._mismatched_pid != message.engine_pid:
            log.error(
                "the engine host (pid: %d) runs another version of Braid (message schema %s, here %s); "
                "this worker waits for a host of its own version",
                *(message.engine_pid, message.schema, SCHEMA),
            )
        self._mismatched_pid = message.engine_pid
        for callback in self._mismatch_callbacks:
            callback(message.engine_pid)
        if self._link is not None:
            self._link.close()

    def _listening_link(self) -> Link:
        if self._link is None or self._status is None:
            raise Unavailable("the engine is starting")
        if self._status.state == "draining":
            raise Unavailable("the server is shutting down")
        return self._link

    def _deliver(self, update: TokenUpdate) -> None:
        update_queue = cast(UpdateQueue | None, self._queues.get(update.request_id))
        if update_queue is None:
            return
        if update.piece.finish == "error":
            self._fail(update, update_queue)
        else:
            update_queue.put(update)
            self._remove_ended(update.request_id, update_queue)

    def _fail(self, update: TokenUpdate, update_queue: UpdateQueue) -> None:
        """One failed choice fails its request: the client gets one answer, and it is an error."""
        open_choices = update_queue.open - {update.choice}
        update_queue.fail(_error(update))
        self._queues.pop(update.request_id)
        if open_choices and self._link is not None:
            self._link.send(Abort(update.request_id))

    def _answer(self, message: Inferred) -> None:
        slot = cast(PendingReply | None, self._queues.pop(message.request_id, None))
        if slot is None:
            return
        if message.error is not None:
            slot.fail(_error(message))
        else:
            slot.put(unpack(message.outputs))

    def _set_reply(self, message: Reply) -> None:
        reply = self._replies.get(message.request_id)
        if reply is not None and not reply.done():
            reply.set_result(message)

    def _instance_of(self, model: str) -> int:
        models = self._status.models if self._status is not None else []
        return next((one.instance_id for one in models if one.name == model), 0)

    def _remove_ended(self, request_id: int, update_queue: UpdateQueue | PendingReply) -> None:
        if not update_queue.open:
            self._queues.pop(request_id, None)

    def _set_status(self, status: Status | None) -> None:
        self._status = status
        self._had_status = self._had_status or status is not None
        for callback in self._callbacks:
            try:
                callback(status)
            except Exception:  # a callback's fault must not end the connection
                log.exception("a callback for the engine's status failed")


def _error(message: TokenUpdate | Inferred | Profiled | ModelSettled) -> BraidError:
    """The error that a message from the host carries."""
    error = ERRORS.get(message.error_status, EngineError)(message.error or "the engine failed")
    error.field, error.word = message.error_field, message.error_word
    if isinstance(message, ModelSettled) and message.retry_after_s is not None:
        error.retry_after_s = message.retry_after_s
    return error
