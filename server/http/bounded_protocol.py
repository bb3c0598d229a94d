"""HTTP/1.1 on one connection: uvicorn's protocol with bounds on what a client may send, and how slowly."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from server.http.close_delimited import CloseDelimitedCycle
from server.http.exchange import LOSSES
from server.http.one_write import LateContinueCycle, OneWriteCycle

MAX_HEAD_BYTES = 64 << 10
"""The most bytes of a request line with headers and trailers; of a chunk's size line; of blank lines."""
FIELD_OVERHEAD_BYTES = 32
"""Counted for each header besides its text, so that many short ones are bounded too."""
MAX_PIPELINED = 64
"""Requests of one connection that wait for the responses to earlier ones."""
BODY_BYTES_PER_S = 16 << 10
"""A body that arrives at this rate may take longer than `body_timeout_s`."""
REFUSAL_HEADERS = (
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
)
ONE_TURN_S = 0.001
"""A turn of the event loop reads what has arrived before a timer of this time is up."""
FIRST_REQUEST_S = 1.0
"""A connection made just before its worker leaves has this time to send its first request."""


class BadRequest(Exception):
    """Raised in the parser's callbacks to end a request with this status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def new_parser(protocol: HttpToolsProtocol) -> httptools.HttpRequestParser:
    """A parser like the one that uvicorn makes."""
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


class BoundedProtocol(HttpToolsProtocol):
    """Counts bytes as they come in, also where no line ends; times heads and bodies.

    Bytes are counted from the last time that the parser passed on a body's bytes or a whole head.  One clock
    runs while a head or a body is incomplete: a request that arrives whole starts none.
    """

    def __init__(self, *args: Any, header_timeout_s: float, body_timeout_s: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_timeout_s = header_timeout_s
        self._body_timeout_s = body_timeout_s
        self._part: Literal["", "head", "body"] = ""  # of a request that is incomplete
        self._num_unparsed = 0  # bytes since the last head or piece of a body
        self._num_field_bytes = 0  # of the whole headers and trailers of a request, and of its URL
        self._num_body_bytes = 0  # since the clock was started
        self._clock: asyncio.TimerHandle | None = None
        self._refusal: BadRequest | None = None
        self._running: RequestResponseCycle | None = None  # `cycle` is the latest, which may wait
        self._leaving = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
            for lost in self._running.scope[LOSSES]:  # type: ignore[literal-required]
                lost()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        if self.cycle is None:
            self._leaving = True
            self.loop.call_later(FIRST_REQUEST_S, self._leave)
        else:
            super().shutdown()

    def _leave(self) -> None:
        if self.cycle is None:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        self._unset_keepalive_if_required()
        self._num_unparsed += len(data)
        try:
            self.parser.feed_data(data)
            if self._num_unparsed > MAX_HEAD_BYTES:
                raise self._too_large(431 if self._part else 400)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError as error:
            mine = error.__context__  # raised in a callback
            self._refuse(mine if isinstance(mine, BadRequest) else BadRequest(400, "this is not valid HTTP"))
        except BadRequest as error:
            self._refuse(error)
        if self._clock is None and self._refusal is None and self._is_awaited():
            self._start_clock()

    def _upgrade(self, rest: bytes) -> None:
        """Give the connection to a WebSocket, where the server has them.  `rest` follows the head."""
        is_get = self.parser.get_method() == b"GET" and self.parser.get_http_version() == "1.1"
        if not (is_get and self._should_upgrade()):
            self._ignore_upgrade(rest)
        elif rest or self._is_responding() or not self.url.isascii():
            self._refuse(BadRequest(400, "a WebSocket begins with a request alone on its connection"))
        else:
            self._stop_clock()
            self.scope["method"] = "GET"
            self.handle_websocket_upgrade()

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Parse a request again without its Upgrade header, which a server may ignore.

        At that header the parser stops; it would parse `rest`, which follows the head, as another request.
        """
        version = self.parser.get_http_version().encode()
        line = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, version)
        others = [b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = new_parser(self)
        self.data_received(line + b"".join(others) + b"\r\n" + rest)

    def on_message_begin(self) -> None:
        self._stop_clock()
        self._part = "head"
        self._num_field_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._num_field_bytes += len(url)
        if self._num_field_bytes > MAX_HEAD_BYTES:
            raise self._too_large(414)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which is read and dropped: it must not act as a header."""
        self._num_field_bytes += len(name) + len(value) + FIELD_OVERHEAD_BYTES
        if self._num_field_bytes > MAX_HEAD_BYTES:
            raise self._too_large(431)
        if self._part == "head":
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        version, upgrades = self.parser.get_http_version(), self.parser.should_upgrade()
        self._check_head(version)
        if upgrades and self.parser.get_method() == b"CONNECT":
            raise BadRequest(400, "CONNECT is for proxies, and this server is none")
        if upgrades:
            return  # it is parsed again
        self.scope[LOSSES] = []  # type: ignore[literal-required]
        super().on_headers_complete()
        self._stop_clock()
        self._part = "body"
        self._num_unparsed = 0
        if not self.pipeline:
            self._running = self.cycle
        if version == "1.0":
            CloseDelimitedCycle.replace(self.cycle)
        else:
            (LateContinueCycle if self.expect_100_continue else OneWriteCycle).replace(self.cycle)
        if self._leaving:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._num_unparsed = 0
        self._num_body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._stop_clock()
        self._part = ""
        self._num_unparsed = 0
        super().on_message_complete()
        if not self.pipeline:  # a long body has paused it, and the loss of the client would not be noticed
            self.flow.resume_reading()

    def on_response_complete(self) -> None:
        if self.pipeline:
            self._running = self.pipeline[-1][0]
        super().on_response_complete()
        if self._refusal is not None and not self._is_responding():
            self._send_refusal(self._refusal)

    def _check_head(self, version: str) -> None:
        names = [name for name, _ in self.headers]
        num_hosts = names.count(b"host")
        if version not in ("1.0", "1.1"):
            raise BadRequest(400, "the version of HTTP must be 1.1 or 1.0")
        if num_hosts > 1 or (num_hosts == 0 and version == "1.1"):
            raise BadRequest(400, "a request needs one Host header")
        if len(self.pipeline) >= MAX_PIPELINED:
            raise BadRequest(400, f"at most {MAX_PIPELINED} pipelined requests may wait")
        if b"expect" in names:
            self.expect_100_continue = dict(self.headers)[b"expect"].lower() == b"100-continue"

    def _too_large(self, status: int) -> BadRequest:
        return BadRequest(status, f"a URL and headers have at most {MAX_HEAD_BYTES} bytes")

    def _is_awaited(self) -> bool:
        """Whether the server waits for bytes of a request."""
        return bool(self._part) or self.cycle is None or self.cycle.response_complete

    def _is_responding(self) -> bool:
        """Whether the application runs a request of this connection for a client that waits."""
        running = self._running
        return running is not None and not (running.response_complete or running.disconnected)

    def _start_clock(self) -> None:
        self._num_body_bytes = 0
        limit_s = self._body_timeout_s if self._part == "body" else self._header_timeout_s
        self._clock = self.loop.call_later(limit_s, self._read_the_rest)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _read_the_rest(self) -> None:
        """A loop that was held up runs its timers first: let it read what has arrived in time."""
        self._clock = self.loop.call_later(ONE_TURN_S, self._time_is_up)

    def _time_is_up(self) -> None:
        self._clock = None
        if self.flow.read_paused or self._is_body_fast():
            self._start_clock()
        elif not self._part:
            self.transport.close()  # opened and never used, as browsers do
        else:
            self._refuse(BadRequest(408, f"the {self._part} of the request came too slowly"))

    def _is_body_fast(self) -> bool:
        """Whether it brought enough bytes, for a response that is still owed."""
        enough = self._num_body_bytes >= BODY_BYTES_PER_S * self._body_timeout_s
        return self._part == "body" and enough and not self.cycle.response_complete

    def _refuse(self, refusal: BadRequest) -> None:
        """Send the refusal, once earlier requests have their responses, and close; read no further."""
        self.logger.debug("refused a request: %s %s", refusal.status, refusal)
        self._stop_clock()
        self._refusal = refusal
        if self._part == "body" and self.cycle is not self._running:
            self.pipeline.popleft()  # the application never gets it
        elif self._part == "body":
            self.cycle.disconnected = True  # the application ends as if the client had left
        if not self._is_responding():
            self._send_refusal(refusal)

    def _send_refusal(self, refusal: BadRequest) -> None:
        if self.transport.is_closing():
            return
        if self._part != "body" or not self.cycle.response_started:
            text = str(refusal).encode()
            self.transport.write(STATUS_LINE[refusal.status] + REFUSAL_HEADERS % len(text) + text)
        self.transport.close()
