"""The host's end of the wire: the listener that workers connect to.

A listener puts `(peer, message)` into the host's inbox and sends messages back; `Disconnected` is the last
message of a peer.  Here is the listener within one process, in `socket_listener.py` the one between two.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from pipelines.wire.connection import HostConnection, Link
from pipelines.wire.messages import ToHost, ToWorker

Peer = Hashable
"""One connection of one worker; each listener has a class of its own for it."""
Outgoing = Sequence[tuple[Peer, ToWorker]]


@dataclass(frozen=True)
class Disconnected:
    """The worker disconnected or died."""


class Inbox(Protocol):
    def put(self, item: tuple[Peer, Any], /) -> None:
        """Take a message; may be called in any thread, for one peer in order."""


class Listener(Protocol):
    """Belongs to the host's main thread, but for `send`; it may use threads of its own."""

    def open(self, inbox: Inbox) -> None:
        """Accept workers; returns when they can connect."""

    def send(self, messages: Outgoing) -> None:
        """Send, without waiting.  From any thread.  Messages to a peer that is gone are dropped."""

    def close(self) -> None:
        """Send what is unsent, then disconnect."""


class InProcessListener:
    """The two ends joined in one process: messages pass as objects, the host is a thread.

    `connect` is given to an `EngineClient` and runs on that client's loop.
    """

    def __init__(self) -> None:
        self._opened = threading.Event()

    def open(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._opened.set()

    async def connect(self, connection: HostConnection) -> Link:
        """A link to the host.  Raises OSError until the listener is open."""
        if not self._opened.is_set():
            raise ConnectionRefusedError("the engine has not started")
        self._loop = asyncio.get_running_loop()
        return _DirectLink(connection, self._inbox)

    def send(self, messages: Outgoing) -> None:
        if not messages:
            return  # no client has connected, and there is no loop to hand over to
        with contextlib.suppress(RuntimeError):  # the client's loop has ended, and its requests with it
            self._loop.call_soon_threadsafe(_hand_over, messages)

    def close(self) -> None:
        """Nothing is unsent: every message is on the client's loop already."""


class _DirectLink:
    """A peer to the host, a link to the client."""

    def __init__(self, connection: HostConnection, inbox: Inbox) -> None:
        self.connection = connection
        self.open = True
        self._inbox = inbox

    def send(self, message: ToHost) -> None:
        self._inbox.put((self, message))

    def close(self) -> None:
        self.open = False
        self._inbox.put((self, Disconnected()))


def _hand_over(messages: Outgoing) -> None:
    for peer, message in messages:
        link = cast(_DirectLink, peer)
        if link.open:
            link.connection.received(message)
