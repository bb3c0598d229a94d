"""A WebSocket on one connection: uvicorn's protocol with bounds that it lacks.  Needs the extra `audio`."""

from __future__ import annotations

import logging
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

log = logging.getLogger("braid.sockets")
log.setLevel(logging.WARNING)  # a line for each socket that opens or closes says nothing

MAX_MESSAGE_BYTES = 16 << 20
"""Of a client's message; a larger one closes the socket with code 1009."""
MAX_FRAGMENTS = 4096
"""Of one message, so that empty ones are bounded too."""
PING_S = 20.0
PONG_S = 60.0
"""A client answers a ping between two frames, so this is also the time for a frame."""
ABORT_S = 2.0
"""After this time a connection is dropped whose client reads nothing, not even that it is closed."""
REFUSED = STATUS_LINE[400] + b"content-length: 0\r\nconnection: close\r\n\r\n"
TOO_BIG = 1009


class BoundedSocket(WebSocketsSansIOProtocol):
    """Also bounds fragments, and what a client that does not read lets pile up."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = self.conn.logger = log

    def data_received(self, data: bytes) -> None:
        """The first data is a whole head; the library takes some that are no handshake for ones to ignore."""
        super().data_received(data)
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
