"""One HTTP request and its reply: its id, what is released at its end, and the disconnect of its client.

Does not depend on routes, models or bodies.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pipelines.base.cancellation import ClientGone, ShortWork, TakesLong
from pipelines.requests.fields.request_ids import clean_id
from pipelines.telemetry.request_trace import RequestTrace
from server.dialects import OPENAI, Dialect
from server.http.work_queue import LONG_WORK_BYTES, Work

if TYPE_CHECKING:
    from server.keys.key_file import NamedKey
    from server.keys.limits import KeyBound

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LONG_BODY_BYTES = 16 << 10
"""Work on more bytes is done off the event loop."""
Result = TypeVar("Result")

DISCONNECTS = ("http.disconnect", "websocket.disconnect")
LOSSES = "braid.losses"
"""The key in the scope of a request of what is called, where the server has it, when the client disconnects
before it has the whole response, so that no task waits for that.
"""
KEEP_ALIVE = b": keep-alive\n\n"
"""A comment in a stream of server-sent events; clients ignore it."""
KEEP_ALIVE_S = 1.0
"""After this long without data a stream sends a comment, so that proxies do not close it."""
QUIET_TICKS = 10
"""After this many comments in a row a stream sends an event, where its protocol has one for that."""


class Exchange:
    """Exists from the first byte of a request to the last byte of its reply.

    Callbacks of `at_end` run exactly once, in reverse order, however the exchange ends; those of `when_gone`
    run on the event loop as soon as the client disconnects.
    """

    def __init__(
        self,
        receive: Receive,
        send: Send,
        work: Work,
        dialect: Dialect = OPENAI,
        error_words: bool = False,
        watches: bool = True,
    ) -> None:
        """`error_words` lets errors have OpenAI's words as codes, where the dialect has them.  Without
        `watches` the application itself reads until the client disconnects, or `leave` is called then.
        """
        self.client_id: str | None = None  # the client's own
        self.trace = RequestTrace(os.urandom(16).hex(), time.monotonic())
        self.tenant = ""  # whose share of the server it takes: a digest of the key, or of the session
        self.account = ""  # whose its stored responses are: a digest of the key, "" where none is needed
        self.query_key: str | None = None  # the API key that was a parameter of the query
        self.key: NamedKey | None = None  # the named key that was sent
        self.bounds: list[KeyBound] = []  # where that key stands, once the request was counted
        self.sees: str | None = None  # the account whose requests alone it may see and cancel; None: of all
        self.affinity: str | None = None  # what the requests of its session have alike, where it matters
        self.dialect = dialect
        self.error_words = error_words and dialect.error_words
        self.is_gone = False  # whether `receive` has returned a disconnect
        self.has_whole_body = False  # whether `receive` has returned the end of the body
        self.has_written = False  # since the last tick of the keep-alive clock
        self._receive = receive
        self._send = send
        self._work = work
        self._ends = ExitStack()
        self._when_gone: list[Callable[[], Any]] = []
        self._watching = not watches

    @property
    def request_id(self) -> str:
        return self.trace.id

    @property
    def started_s(self) -> float:
        return self.trace.started_s

    def take_id(self, client_id: str | None) -> None:
        """Use the client's own id for the request; an id that is not clean is ignored."""
        self.client_id = clean_id(client_id)
        self.trace.id = self.client_id or self.trace.id

    async def receive(self) -> Message:
        """The next message, for the application."""
        message = await self._receive()
        if message["type"] in DISCONNECTS:
            self.leave()
        elif not message.get("more_body"):
            self.has_whole_body = True
        return message

    def leave(self) -> None:
        """The client disconnected."""
        if not self.is_gone:
            self.is_gone = True
            for callback in list(self._when_gone):
                callback()

    def at_end(self, callback: Callable[[], Any]) -> None:
        self._ends.callback(callback)

    def when_gone(self, callback: Callable[[], Any]) -> None:
        """Watch for a disconnect.  Only after the whole body was read: both read from one channel."""
        self._when_gone.append(callback)
        if self.is_gone:
            callback()
        elif not self._watching:
            self._watching = True
            watch = asyncio.create_task(self._watch(), name=f"watch-{self.request_id}")
            self.at_end(watch.cancel)

    async def _watch(self) -> None:
        while not self.is_gone:
            await self.receive()

    async def off_loop(self, work: Callable[[], Result], num_bytes: int) -> Result:
        """What `work` returns: run at once for few bytes, else in a queue of the worker.

        Work that turns out to be long begins again in the queue of long work.  Only after the whole body was
        read.  Raises Overloaded, and ClientGone when the client disconnects meanwhile: then work that waits
        never runs.
        """
        try:
            if num_bytes > LONG_BODY_BYTES:
                return await self._queued(work, num_bytes)
            with ShortWork():
                return work()
        except TakesLong:
            return await self._queued(work, max(num_bytes, LONG_WORK_BYTES + 1))

    async def _queued(self, work: Callable[[], Result], num_bytes: int) -> Result:
        job = self._work.put(work, num_bytes, self.tenant)
        drop = partial(job.drop, ClientGone())
        self.when_gone(drop)
        try:
            result: Result = await job.done
            return result
        finally:
            self._when_gone.remove(drop)
            drop()  # where this task was cancelled

    async def long_work(self, work: Callable[[], Result], num_bytes: int = 0) -> Result:
        """Runs work that takes long, however few the bytes are."""
        return await self.off_loop(work, max(num_bytes, LONG_BODY_BYTES + 1))

    async def while_here(self, work: Coroutine[Any, Any, Result]) -> Result:
        """What `work` returns.  It is cancelled when the client disconnects: then raises ClientGone.

        Only after the whole body was read.
        """
        task = asyncio.create_task(work, name=f"wait-{self.request_id}")
        self.when_gone(task.cancel)
        try:
            return await task
        except asyncio.CancelledError:
            if self.is_gone:
                raise ClientGone from None
            raise
        finally:
            self._when_gone.remove(task.cancel)
            task.cancel()

    @contextmanager
    def kept_alive(self, comment: bytes = KEEP_ALIVE, event: bytes = b"") -> Iterator[None]:
        """While inside, send a comment, if there is one, whenever nothing was written for KEEP_ALIVE_S.

        After QUIET_TICKS comments in a row `event` is sent, for clients that count events alone.
        The status must have been sent.  `send` writes a chunk whole, so a comment never splits an event.
        """
        if not comment:
            yield
            return
        clock = asyncio.create_task(self._tick(comment, event), name=f"keep-alive-{self.request_id}")
        self.at_end(clock.cancel)  # a stream that is cancelled while it writes comes back here late
        try:
            yield
        finally:
            clock.cancel()

    async def _tick(self, comment: bytes, event: bytes) -> None:
        num_quiet = 0
        while True:
            self.has_written = False
            await asyncio.sleep(KEEP_ALIVE_S)
            num_quiet = 0 if self.has_written else num_quiet + 1
            if num_quiet:
                body = comment + event if num_quiet % QUIET_TICKS == 0 else comment
                await self._send({"type": "http.response.body", "body": body, "more_body": True})

    def close(self) -> None:
        """The exchange ended."""
        self._ends.close()
