"""A WebSocket on one connection: uvicorn's protocol with bounds that it lacks.  Needs the extra `audio`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from pipelines.base.errors import Overloaded
from server.http.exchange import LOSSES
from server.http.socket_exchange import ARRIVING, SWITCHING_PROTOCOLS

if TYPE_CHECKING:  # the master imports this module, and workers take over what it has imported
    from server.http.request_body import ArrivingBodies

log = logging.getLogger("braid.sockets")
log.setLevel(logging.WARNING)  # a line for each socket that opens or closes says nothing

MAX_MESSAGE_BYTES = 16 << 20
"""The most bytes of a client's message; a larger one closes the socket with code 1009."""
MAX_FRAGMENTS = 4096
"""The most fragments of one message, so that empty ones are bounded too."""
PING_S = 20.0
PONG_S = 60.0
"""A client answers a ping between two frames, so this is also the time for a frame."""
ABORT_S = 2.0
"""After this time a connection is dropped whose client reads nothing, not even that it is closed."""
REFUSED = STATUS_LINE[400] + b"content-length: 0\r\nconnection: close\r\n\r\n"
TOO_BIG = 1009
TRY_AGAIN_LATER = 1013


class BoundedSocket(WebSocketsSansIOProtocol):
    """Also bounds fragments, and what a client that does not read lets pile up.

    What it holds of messages, whole or not, that the application has not done with counts among the bodies
    that its worker reads: `scope[ARRIVING]`, where the application has put them.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = self.conn.logger = log
        self._num_queued = 0  # bytes of whole messages, with the one that the application works on
        self._num_taken = 0  # of that one
        self._num_counted = 0

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == SWITCHING_PROTOCOLS:
            self.scope[LOSSES] = []  # type: ignore[literal-required]

    def data_received(self, data: bytes) -> None:
        """The first data is a whole head; the library takes some that are no handshake for ones to ignore."""
        super().data_received(data)
        self._count()
        if not self.handshake_initiated:
            self.handshake_initiated = self.handshake_complete = self.close_sent = True
            self.transport.write(REFUSED)
            self.transport.close()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= MAX_FRAGMENTS:
            self.conn.fail(TOO_BIG, f"a message has at most {MAX_FRAGMENTS} fragments")
            self.handle_parser_exception()
        elif not self.close_sent:
            super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        self._num_queued += sum(map(len, self.frames))
        super().send_receive_event_to_app()

    async def send(self, message: ASGISendEvent) -> None:
        """The library waits for the handshake also where its refusal is sent, and logs that it never came."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = True

    async def receive(self) -> ASGIReceiveEvent:
        """The application has done with the message before."""
        self._num_queued -= self._num_taken
        self._num_taken = 0
        self._count()
        message = await super().receive()
        if message["type"] == "websocket.receive":
            text, data = message.get("text"), message.get("bytes")
            self._num_taken = len(data or b"") if text is None else len(text.encode())
        return message

    def _count(self) -> None:
        """Note what is held now; a long message that is too much for the worker ends the socket."""
        bodies: ArrivingBodies | None = getattr(self, "scope", {}).get(ARRIVING)
        if bodies is None:
            return
        held = self._num_queued + sum(map(len, self.frames)) + len(self.conn.reader.buffer)
        held, before = (0 if self.disconnected else held), self._num_counted
        self._num_counted = held
        try:
            bodies.add(held - before, held)
        except Overloaded as error:
            if not self.close_sent and held > before:
                self.conn.fail(TRY_AGAIN_LATER, error.message)
                self.handle_parser_exception()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.frames = []
        self.conn.reader.buffer.clear()
        self._count()
        for lost in getattr(self, "scope", {}).get(LOSSES, ()):
            lost()

    def handle_ping(self) -> None:
        pongs = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(pongs)

    def handle_parser_exception(self) -> None:
        """The library refused what came.  More is read and dropped for a while: a connection that is closed
        before would lose the reason.
        """
        if self.close_sent:
            return
        assert self.conn.close_sent is not None
        code, reason = self.conn.close_sent.code, self.conn.close_sent.reason
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.frames = []
        self.transport.resume_reading()
        self.close_timer = self.loop.call_later(ABORT_S, self.transport.close)

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.loop.call_later(ABORT_S, self.transport.abort)
