"""One sending of a request to a replica of Ray Serve, after which it may be sent to another one.

Serve itself sends a request once.  One that gets a 503, or whose replica ends before it replies, can be sent
again: no byte of a reply has reached the client, as behind the proxy of deploy/haproxy.cfg.
"""

from __future__ import annotations

from collections.abc import Iterable

from server.http.exchange import DISCONNECTS, Message, Receive, Send

UNAVAILABLE = 503


class Attempt:
    """`receive` and `send` of an ASGI application, which keep a refusal from the client."""

    def __init__(self, read: Iterable[Message], receive: Receive, send: Send, is_last: bool) -> None:
        """`read`: what was received of the request already; `is_last`: its reply is sent whatever it is."""
        self._read = iter(list(read))
        self._receive = receive
        self._send = send
        self._is_last = is_last
        self._has_begun = False
        self._is_refused = False
        self._is_gone = False

    @property
    def has_failed(self) -> bool:
        """Whether the request is to be sent again: refused, or at its end without a reply to a client."""
        return not self._is_last and not self._is_gone and (self._is_refused or not self._has_begun)

    async def receive(self) -> Message:
        message = next(self._read, None)
        if message is None:
            message = await self._receive()
        self._is_gone |= message["type"] in DISCONNECTS
        return message

    async def send(self, message: Message) -> None:
        if not self._has_begun and not self._is_last:
            self._is_refused |= message.get("status") == UNAVAILABLE
        if not self._is_refused:
            self._has_begun = True
            await self._send(message)
