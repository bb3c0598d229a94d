"""The worker's connection to an engine host that listens at a unix socket, as `socket_listener` does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import cast

from pipelines.wire.client import EngineClient
from pipelines.wire.connection import HostConnection, Link
from pipelines.wire.framing import Framer, MalformedFrame, encode
from pipelines.wire.messages import ToHost, ToWorker

log = logging.getLogger("braid.wire")


def over_socket(path: str, ids: Iterator[int] | None = None) -> EngineClient:
    """A client of the host that listens at unix socket `path`, now or later; `ids` are for its requests."""

    async def connect(connection: HostConnection) -> Link:
        loop = asyncio.get_running_loop()
        _, link = await loop.create_unix_connection(lambda: _SocketLink(connection), path)
        return link

    return EngineClient(connect, ids)


class _SocketLink(asyncio.Protocol):
    """A unix-socket connection: frames out, messages in.  A malformed frame ends it."""

    def __init__(self, connection: HostConnection) -> None:
        self._connection = connection
        self._framer = Framer(ToWorker)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._framer.feed(data):
                self._connection.received(message)
        except MalformedFrame as error:
            log.error("the engine sent no message: %s", error)
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.lost()

    def send(self, message: ToHost) -> None:
        if not self._transport.is_closing():
            self._transport.write(encode(message))

    def close(self) -> None:
        self._transport.close()
