"""Responses whose length is known: their head leaves with their body, in one call of the system."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class HeldHead:
    """A writer in the place of a transport: it holds what is written first until more is."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport
        self.head = b""

    def write(self, data: bytes) -> None:
        if self.head:
            self.transport.writelines((self.head, data))
        else:
            self.head = data

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)


class OneWriteCycle(RequestResponseCycle):
    """Uvicorn's exchange of one request, with one write where the application sends head and body together:
    it does where it knows the length.  So clients wake up once.
    """

    @classmethod
    def replace(cls, cycle: RequestResponseCycle) -> None:
        """Make a cycle that has not begun one of these; uvicorn does not let a protocol choose its class."""
        cycle.__class__ = cls

    async def send(self, message: Any) -> None:
        held = self.transport
        if not self.response_started:
            await self._begin(message)
        elif isinstance(held, HeldHead):
            await super().send(message)
            self.transport = held.transport
        else:
            await super().send(message)

    async def _begin(self, message: Any) -> None:
        transport = self.transport
        self.transport = held = HeldHead(transport)  # type: ignore[assignment]
        await super().send(message)
        if held.head and self.expected_content_length and self.scope["method"] != "HEAD":
            return  # the body follows
        self.transport = transport
        if held.head:  # nothing is written for a client that is gone
            transport.write(held.head)


class LateContinueCycle(OneWriteCycle):
    """One whose client waits for `100 Continue`, which it gets when the application reads the body.

    Falcon asks for a first message before all else, and uvicorn would send it then: so that one is empty.
    """

    _has_begun = False

    async def receive(self) -> Any:
        if not self.more_body:
            self.waiting_for_100_continue = False  # the body came all the same
        elif not self._has_begun:
            self._has_begun = True
            return {"type": "http.request", "body": b"", "more_body": True}
        return await super().receive()

    async def send(self, message: Any) -> None:
        if self.waiting_for_100_continue and self.more_body:
            self.keep_alive = False  # the client may send the body all the same, or not
        await super().send(message)
