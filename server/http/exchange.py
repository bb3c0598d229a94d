"""One HTTP request and its answer: its id, what must be undone at its end, and the news that its client left.

Knows ASGI messages; knows nothing of routes, models or what is said.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from typing import Any

from server.http.request_ids import clean_id

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment in a stream of server-sent events; clients ignore it."""
KEEP_ALIVE_S = 1.0
"""After this long without a word a stream sends a comment, so that proxies do not think it dead."""


class ClientGone(Exception):
    """The client hung up; there is nobody to answer."""


class Exchange:
    """Lives from the first byte of a request to the last of its answer.

    What is registered with `at_end` runs exactly once, in reverse order, however the exchange ends; what is
    registered with `when_gone` runs on the event loop as soon as the client hung up.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self.asked_id: str | None = None  # the client's own
        self.request_id = secrets.token_hex(16)
        self.said = False  # since the last look of the keep-alive clock
        self._receive = receive
        self._send = send
        self._ends = ExitStack()

    def take_id(self, asked_id: str | None) -> None:
        """The client names its request; an id that is not clean is as good as none."""
        self.asked_id = clean_id(asked_id)
        self.request_id = self.asked_id or self.request_id

    def at_end(self, callback: Callable[[], Any]) -> None:
        self._ends.callback(callback)

    def when_gone(self, callback: Callable[[], Any]) -> None:
        """Watch for a hang-up.  Only after the whole body was read: both read from one channel."""
        watch = asyncio.create_task(self._watch(callback), name=f"watch-{self.request_id}")
        self.at_end(watch.cancel)

    async def _watch(self, callback: Callable[[], Any]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        callback()

    @contextmanager
    def kept_alive(self) -> Iterator[None]:
        """While inside, a comment is sent whenever nothing was said for KEEP_ALIVE_S.

        The status must have been sent.  `send` writes a whole chunk at once, so a comment never splits an
        event.
        """
        clock = asyncio.create_task(self._tick(), name=f"keep-alive-{self.request_id}")
        self.at_end(clock.cancel)  # a stream that is cancelled while it writes comes back here late
        try:
            yield
        finally:
            clock.cancel()

    async def _tick(self) -> None:
        while True:
            self.said = False
            await asyncio.sleep(KEEP_ALIVE_S)
            if not self.said:
                await self._send({"type": "http.response.body", "body": KEEP_ALIVE, "more_body": True})

    def close(self) -> None:
        """The exchange ended."""
        self._ends.close()
