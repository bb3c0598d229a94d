"""The host's inbox: messages wait here for its main thread, or are handled by the thread that brings them.

What belongs to the main thread belongs to the thread that holds the turn.  The main thread holds it at all
times but while it waits for messages: then a short message is handled at once by the thread that puts it
here, since to wake another thread takes longer.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from pipelines.wire.listener import Peer

Item = tuple[Peer, Any]
Handle = Callable[[Peer, Any], None]


class HostInbox:
    """`put` is for any thread and for signal handlers, all else for the main thread.

    It is made with the turn held.  Messages are handled in the order in which they are put: while one waits
    for the main thread, none is handled at once.
    """

    def __init__(self) -> None:
        self.num_at_once = 0  # messages that other threads have handled
        self._at_once: Mapping[type, Handle] = {}
        self._noted: frozenset[type] = frozenset()
        self._notes = False  # whether the main thread waits for noted messages too
        self._waiting: deque[Item] = deque()
        self._turn, self._woken = threading.Lock(), threading.Lock()
        self._turn.acquire()
        self._woken.acquire()  # it is released to wake the main thread

    def handle_at_once(self, handlers: Mapping[type, Handle], noted: frozenset[type]) -> None:
        """Messages of these types do not need the main thread; it may want to know of those that are
        `noted`.
        """
        self._at_once, self._noted = handlers, noted

    def put(self, item: Item) -> None:
        """Handle a message at once, or have the main thread do it."""
        kind = type(item[1])
        handle = self._at_once.get(kind)
        if handle is None or self._waiting or not self._turn.acquire(blocking=False):
            self._waiting.append(item)
            self._wake()
            return
        try:
            is_next = not self._waiting
            if is_next:
                handle(*item)
                self.num_at_once += 1
            else:
                self._waiting.append(item)
        finally:
            self._turn.release()
        if not is_next or (self._notes and kind in self._noted):
            self._wake()

    def take(self) -> Item | None:
        """The message that has waited longest."""
        return self._waiting.popleft() if self._waiting else None

    def wait(self, timeout_s: float, notes: bool) -> None:
        """Give the turn away until a message waits; with `notes` also until a noted one was handled."""
        if self._waiting:
            return
        self._notes = notes
        self._turn.release()
        try:
            self._woken.acquire(timeout=timeout_s)
        finally:
            self._turn.acquire()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # it is to wake already
            self._woken.release()
