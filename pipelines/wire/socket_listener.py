"""The host's end of the wire as a unix socket: messages leave immediately, a thread does the rest."""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import threading
import time
from pathlib import Path
from typing import Any, cast

from pipelines.wire.framing import Framer, encode
from pipelines.wire.listener import Disconnected, Inbox, Outgoing
from pipelines.wire.messages import ToHost, ToWorker

log = logging.getLogger("braid.host")

READ_BYTES = 256 << 10
MAX_UNSENT_BYTES = 256 << 20
"""The most bytes of messages for a worker that does not read; beyond it the worker is disconnected."""
FLUSH_S = 2.0
"""How long a closing listener waits for workers to read what was sent."""
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class SocketListener:
    """Listens at `path`.  Any thread sends at once; what a socket does not take, the listener's thread sends.

    So most frames need no other thread, which would take time from the next step of a model on a CPU.  The
    listener's thread accepts, reads and decodes while the main thread is inside a model call.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._peers: set[_Connection] = set()
        self._until_s: float | None = None  # of time.monotonic: closing, and no longer than this
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = socket.socketpair()
        self._wake.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="listener", daemon=True)

    def open(self, inbox: Inbox) -> None:
        """Raises OSError where no socket can listen at the path."""
        self._inbox = inbox
        self._path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        with contextlib.ExitStack() as failed:
            failed.callback(self._close)
            self._listener.bind(str(self._path))
            os.chmod(self._path, 0o600)
            self._listener.listen()
            failed.pop_all()
        for sock in (self._listener, self._woken):
            sock.setblocking(False)
            self._selector.register(sock, READ)
        self._thread.start()

    def send(self, messages: Outgoing) -> None:
        for peer, message in messages:
            connection = cast(_Connection, peer)
            if not connection.send(_frame(message)):
                self._wake_up()

    def close(self) -> None:
        self._until_s = time.monotonic() + FLUSH_S
        self._wake_up()
        self._thread.join(2 * FLUSH_S)

    def _wake_up(self) -> None:
        with contextlib.suppress(OSError):  # it has ended, or is woken already
            self._wake.send(b"\0")

    def _run(self) -> None:
        try:
            while self._until_s is None or (self._any_behind() and time.monotonic() < self._until_s):
                self._turn()
        finally:
            for peer in list(self._peers):
                self._hang_up(peer)
            self._close()
            self._path.unlink(missing_ok=True)

    def _close(self) -> None:
        for one in (self._listener, self._selector, self._woken, self._wake):
            one.close()

    def _any_behind(self) -> bool:
        return any(peer.behind for peer in self._peers)

    def _turn(self) -> None:
        for peer in self._peers:
            if peer.is_watched_for_room != peer.behind:
                peer.is_watched_for_room = not peer.is_watched_for_room
                events = READ | WRITE if peer.is_watched_for_room else READ
                self._selector.modify(peer.socket, events, peer)
        timeout_s = None if self._until_s is None else self._until_s - time.monotonic()
        for key, events in self._selector.select(timeout_s):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj is self._woken:
                self._woken.recv(READ_BYTES)
            else:
                self._serve(key.data, events)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the worker may be gone again
            connected, _ = self._listener.accept()
            peer = _Connection(connected)
            self._peers.add(peer)
            self._selector.register(connected, READ, peer)

    def _serve(self, peer: _Connection, events: int) -> None:
        try:
            if events & WRITE:
                peer.send(b"")
            if events & READ:
                for message in peer.read():
                    self._inbox.put((peer, message))
        except OSError:
            self._hang_up(peer)
        except Exception as error:  # no message, or no memory for one: other workers are served on
            log.error("a worker sent no message: %r", error)
            self._hang_up(peer)

    def _hang_up(self, peer: _Connection) -> None:
        """Disconnect; a living worker connects again."""
        self._peers.discard(peer)
        self._selector.unregister(peer.socket)
        peer.close()
        self._inbox.put((peer, Disconnected()))


class _Connection:
    """One worker's connection.  `send` and `behind` are for any thread, all else for the listener's."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self.socket = connected
        self.is_watched_for_room = False
        self._framer = Framer(ToHost)
        self._lock = threading.Lock()
        self._unsent = bytearray()
        self._open = True

    @property
    def behind(self) -> bool:
        """Whether something waits to be sent."""
        return bool(self._unsent)

    def send(self, frame: bytes) -> bool:
        """Whether all is sent: this frame, and what did not fit before.  To a closed one nothing is."""
        with self._lock:
            if not self._open:
                return True
            if len(self._unsent) > MAX_UNSENT_BYTES:
                self._drop_unsent()
                return True
            if self._unsent:
                self._unsent += frame
                del self._unsent[: self._sent(self._unsent)]
            elif frame:
                self._unsent += memoryview(frame)[self._sent(frame) :]
            return not self._unsent

    def _sent(self, data: bytes | bytearray) -> int:
        """How many of the bytes the socket takes; all where it is gone, and the next read fails."""
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)

    def _drop_unsent(self) -> None:
        """Disconnect a worker that does not read; the next read from it fails."""
        log.error("a worker reads nothing: %d bytes of its messages are dropped", len(self._unsent))
        self._unsent.clear()
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def read(self) -> list[Any]:
        """The messages that have come.  Raises MalformedFrame, and OSError at the connection's end."""
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return []
        if not data:
            raise ConnectionResetError
        return self._framer.feed(data)

    def close(self) -> None:
        with self._lock:
            self._open = False
            self._unsent.clear()
            self.socket.close()


def _frame(message: ToWorker) -> bytes:
    """The encoded message; b"" where it cannot be encoded, e.g. beyond MAX_FRAME_BYTES."""
    try:
        return encode(message)
    except Exception:
        log.exception("a message could not be sent")
        return b""
