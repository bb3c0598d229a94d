"""Requests of an event loop to one server, many at once: JSON replies, and replies as events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

from tools.client.connection import Connection, ConnectionBroken
from tools.client.event_lines import END, event_of, event_text, json_of
from tools.client.http_client import TIMEOUT_S, Address, RequestFailed, error_message


class AsyncClient:
    """Sends requests to the server at a URL; paths begin at the root.

    Each request in flight has a connection, which stays open for the next one.  Belongs to one event loop.
    """

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        """`timeout_s` is the longest pause of a reply.  Raises ValueError for what is no address."""
        self._address = Address.of(url)
        self.url = self._address.url
        self._timeout_s = timeout_s
        self._idle: list[Connection] = []

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self._idle:
            connection.close()

    async def get(self, path: str) -> Any:
        """The JSON of the reply.  Raises RequestFailed."""
        return json_of(await self.send("GET", path, b""))

    async def post(self, path: str, body: object = None, headers: Mapping[str, str] = {}) -> Any:
        """The JSON of the reply to a body of JSON, None for a reply without a body.  Raises RequestFailed."""
        reply = await self.send("POST", path, b"" if body is None else json.dumps(body).encode(), headers)
        return json_of(reply) if reply else None

    async def send(self, method: str, path: str, body: bytes, headers: Mapping[str, str] = {}) -> bytes:
        """The body of the reply.  Raises RequestFailed."""
        async with self._reply(method, path, body, headers) as pieces:
            return b"".join([piece async for piece in pieces])

    @asynccontextmanager
    async def events(
        self, path: str, body: object, headers: Mapping[str, str] = {}
    ) -> AsyncIterator[AsyncIterator[Any]]:
        """The JSON of each event of a stream, which is closed at the end of `with`, even in its middle.

        Raises RequestFailed.
        """
        async with self._reply("POST", path, json.dumps(body).encode(), headers) as pieces:
            yield _events(pieces)

    @asynccontextmanager
    async def _reply(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The pieces of a reply of status 200, over a connection that no other request uses."""
        connection = self._idle.pop() if self._idle else self._connection()
        if connection.is_broken:
            connection.close()
        try:
            await connection.send(method, self._address.path + path, body, headers)
            pieces = self._bounded(connection.pieces())
            first = await anext(pieces, b"")
            if connection.status != HTTPStatus.OK:
                content = first + b"".join([piece async for piece in pieces])
                raise RequestFailed(error_message(connection.status, content), connection.status)
            yield _after(first, pieces)
        except (OSError, ConnectionBroken) as error:
            raise RequestFailed(f"no reply of {self.url}: {str(error) or type(error).__name__}") from error
        finally:
            if connection.is_reusable:
                self._idle.append(connection)
            else:
                connection.close()

    async def _bounded(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The pieces; raises TimeoutError where one does not come in time."""
        while True:
            async with asyncio.timeout(self._timeout_s):
                piece = await anext(pieces, None)
            if piece is None:
                return
            yield piece

    def _connection(self) -> Connection:
        address = self._address
        return Connection(address.host, address.port, is_tls=address.is_tls)


async def _after(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in pieces:
        yield piece


async def _events(pieces: AsyncIterator[bytes]) -> AsyncIterator[Any]:
    """The events to [DONE], or to the end of the reply, which is read whole."""
    rest, has_ended = b"", False
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            text = event_text(line)
            has_ended = has_ended or text == END
            if text is not None and not has_ended:
                yield event_of(text, HTTPStatus.OK)
