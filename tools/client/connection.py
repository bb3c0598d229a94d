"""An HTTP connection on a bare socket, because a load test often shares its cores with the server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping

import httptools

from tools.client.http_client import JSON

READ_BYTES = 1 << 16
HEAD = "{method} {path} HTTP/1.1\r\nHost: {host}:{port}\r\n{headers}Content-Length: "


class ConnectionBroken(Exception):
    """The connection ended, or what came is not HTTP."""


class Connection:
    """Sends one request at a time and stays open between them; opened when it is needed."""

    def __init__(self, host: str, port: int, key: str | None = None, is_tls: bool = False) -> None:
        self._host, self._port = host, port
        self._tls = ssl.create_default_context() if is_tls else None
        self._key = f"Authorization: Bearer {key}\r\n" if key else ""
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._awaits_reply = False
        self.status = 0

    async def send(self, method: str, path: str, body: bytes, headers: Mapping[str, str] = {}) -> None:
        """`headers` are those beside the usual ones; a body is JSON, unless they say otherwise.

        Raises OSError.
        """
        writer, self._awaits_reply = (await self.open())[1], True
        lines = self._key + "".join(f"{name}: {value}\r\n" for name, value in {**JSON, **headers}.items())
        head = HEAD.format(method=method, path=path, host=self._host, port=self._port, headers=lines)
        writer.write(f"{head}{len(body)}\r\n\r\n".encode() + body)
        await writer.drain()

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, unless it is connected.  Raises OSError."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        return self._streams

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body of the reply as it comes; `status` is set by then.  Raises ConnectionBroken, OSError."""
        assert self._streams is not None
        reply = _Reply()
        parser = reply.parser = httptools.HttpResponseParser(reply)
        while not reply.complete:
            received = await self._streams[0].read(READ_BYTES)
            if not received:
                raise ConnectionBroken("the server closed the connection")
            try:
                parser.feed_data(received)
            except httptools.HttpParserError as error:
                raise ConnectionBroken(f"not HTTP: {error}") from error
            self.status = parser.get_status_code()
            if body := reply.take():
                yield body
        self._awaits_reply = False
        if not reply.keeps_open:
            self.close()

    @property
    def is_broken(self) -> bool:
        """Whether the server closed it since the last reply."""
        return self._streams is not None and self._streams[0].at_eof()

    @property
    def is_reusable(self) -> bool:
        """Whether it is open, and no part of a reply is still to come."""
        return self._streams is not None and not self._awaits_reply

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class _Reply:
    """Receives what the parser finds; `keeps_open`: whether the server takes a further request.

    The parser knows that while it reads the reply, and not once it is complete.
    """

    parser: httptools.HttpResponseParser

    def __init__(self) -> None:
        self.complete = self.keeps_open = False
        self._body: list[bytes] = []

    def on_headers_complete(self) -> None:
        self.keeps_open = self.parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self.complete = True

    def take(self) -> bytes:
        body, self._body = b"".join(self._body), []
        return body
