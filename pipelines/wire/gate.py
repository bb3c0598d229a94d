"""The host's end of the wire: where workers come in.

A gate puts `(peer, message)` into the host's inbox and carries mail back; `Gone` is a peer's last message.
Knows connections and frames; knows nothing of models, engines or what a message asks for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import uvloop

from pipelines.wire.client import EngineClient, Link
from pipelines.wire.messages import Framer, MalformedFrame, ToHost, ToWorker, encode

log = logging.getLogger("braid.host")

Peer = Hashable
"""One connection of one worker, as the gate that made it knows it."""
Inbox = queue.SimpleQueue[tuple[Peer, Any]]
Mail = Sequence[tuple[Peer, ToWorker]]

FLUSH_S = 2.0
"""How long a closing gate waits for workers to read what was sent."""


@dataclass(frozen=True)
class Gone:
    """The peer hung up or died."""


class Gate(Protocol):
    """Belongs to the host's main thread, whatever threads it uses itself."""

    def open(self, inbox: Inbox) -> None:
        """Let workers in; returns when they can come."""

    def post(self, mail: Mail) -> None:
        """Send, without waiting.  Mail to a peer that is gone is dropped."""

    def close(self) -> None:
        """Send what was posted, then hang up."""


class SocketGate:
    """A unix socket served by an asyncio loop in its own thread; frames are encoded there.

    Reading the inbox and encoding frames go on while the main thread is inside a model call.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened = threading.Event()
        self._peers: set[_Connection] = set()
        self._thread = threading.Thread(target=self._run, name="gate", daemon=True)

    def open(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._thread.start()
        self._opened.wait()
        if not self._thread.is_alive():
            raise OSError(f"cannot listen at {self._path}")

    def post(self, mail: Mail) -> None:
        self._loop.call_soon_threadsafe(_write, mail)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(2 * FLUSH_S)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        finally:
            self._opened.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self._path.unlink(missing_ok=True)
        server = await self._loop.create_unix_server(
            lambda: _Connection(self._inbox, self._peers), str(self._path)
        )
        os.chmod(self._path, 0o600)
        self._opened.set()
        await self._closing.wait()
        server.close()
        await self._hang_up()
        self._path.unlink(missing_ok=True)

    async def _hang_up(self) -> None:
        for peer in list(self._peers):
            peer.close()
        deadline_s = self._loop.time() + FLUSH_S
        while self._peers and self._loop.time() < deadline_s:
            await asyncio.sleep(0.005)


class _Connection(asyncio.Protocol):
    """One worker's connection.  A malformed frame ends it; the worker comes again with a new one."""

    def __init__(self, inbox: Inbox, peers: set[_Connection]) -> None:
        self._inbox = inbox
        self._peers = peers
        self._framer = Framer(ToHost)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        self._peers.add(self)

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._framer.feed(data):
                self._inbox.put((self, message))
        except MalformedFrame as error:
            log.error("a worker sent no message: %s", error)
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._peers.discard(self)
        self._inbox.put((self, Gone()))

    def write(self, frame: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(frame)

    def close(self) -> None:
        self._transport.close()


def _write(mail: Mail) -> None:
    for peer, message in mail:
        cast(_Connection, peer).write(encode(message))


class DirectGate:
    """The two ends joined in one process: messages pass as objects, the host is a thread.

    `connect` is given to an `EngineClient` and runs on that client's loop.
    """

    def __init__(self) -> None:
        self._opened = threading.Event()

    def open(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._opened.set()

    async def connect(self, client: EngineClient) -> Link:
        """A link to the host.  Raises OSError until the gate is open."""
        if not self._opened.is_set():
            raise ConnectionRefusedError("the engine has not started")
        self._loop = asyncio.get_running_loop()
        return _DirectLink(client, self._inbox)

    def post(self, mail: Mail) -> None:
        if not mail:
            return  # nobody came yet, and there is no loop to hand over to
        with contextlib.suppress(RuntimeError):  # the client's loop has ended, and its requests with it
            self._loop.call_soon_threadsafe(_hand_over, mail)

    def close(self) -> None:
        """Nothing waits anywhere: what was posted is on the client's loop already."""


class _DirectLink:
    """A peer to the host, a link to the client."""

    def __init__(self, client: EngineClient, inbox: Inbox) -> None:
        self.client = client
        self.open = True
        self._inbox = inbox

    def send(self, message: ToHost) -> None:
        self._inbox.put((self, message))

    def close(self) -> None:
        self.open = False
        self._inbox.put((self, Gone()))


def _hand_over(mail: Mail) -> None:
    for peer, message in mail:
        link = cast(_DirectLink, peer)
        if link.open:
            link.client.received(message)
