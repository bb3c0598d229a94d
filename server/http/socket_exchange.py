"""One WebSocket: the reply to its handshake, its end, and the pieces of work that it asks for."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial

from server.dialects import OPENAI, Dialect
from server.http.auth import SUBPROTOCOL_KEY
from server.http.exchange import Exchange, Message, Receive, Send
from server.http.work_queue import Work

ARRIVING = "braid.arriving"
"""The key in the scope of a WebSocket of the worker's `ArrivingBodies`, among which its messages count."""
SWITCHING_PROTOCOLS = 101
FORBIDDEN = 403
"""The status of a handshake that is closed without a reply of its own."""
STATUSES = {"websocket.accept": SWITCHING_PROTOCOLS, "websocket.close": FORBIDDEN}


class SocketExchange(Exchange):
    """Exists from the handshake of a WebSocket to its end.

    `status` is that of the reply to the handshake, 0 before it.
    """

    def __init__(
        self,
        receive: Receive,
        send: Send,
        work: Work,
        dialect: Dialect = OPENAI,
        error_words: bool = False,
    ) -> None:
        super().__init__(receive, send, work, dialect, error_words, watches=False)
        self.status = 0
        self.answered_s = self.started_s

    async def send(self, message: Message) -> None:
        """Send a message of the application."""
        if not self.status:
            self.status = message.get("status") or STATUSES[message["type"]]
            self.answered_s = time.monotonic()
        await self._send(message)

    async def refuse(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Reply to the handshake as to any request, in place of accepting it."""
        encoded = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
        await self.send({"type": "websocket.http.response.start", "status": status, "headers": encoded})
        await self.send({"type": "websocket.http.response.body", "body": body, "more_body": False})

    def part(self) -> Exchange:
        """An exchange for one piece of work: it holds what that needs, and ends with it or with the socket.

        Close it.
        """
        part = Exchange(self._receive, self._send, self._work, self.dialect, self.error_words, watches=False)
        part.tenant, part.account, part.trace.account = self.tenant, self.account, self.account
        part.key = self.key
        part.trace.path, part.trace.status, part.trace.streams = self.trace.path, self.status, True
        self._when_gone.append(part.leave)
        part.at_end(partial(self._when_gone.remove, part.leave))
        if self.is_gone:
            part.leave()
        return part


def selected_subprotocol(offered: Sequence[str]) -> str | None:
    """The one to select: browsers close a socket that selects none of those they offered; not the key."""
    return min(offered, key=lambda name: name.startswith(SUBPROTOCOL_KEY), default=None)
