"""A worker's connection to the engine host: made, watched, made again after each loss; its last status."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Protocol

from pipelines.base.errors import BraidError, Unavailable
from pipelines.wire.messages import SCHEMA, Hello, Status, ToHost, ToWorker, Welcome

log = logging.getLogger("braid.wire")

FIRST_DELAY_S, LONGEST_DELAY_S = 0.05, 0.5
"""The seconds between two attempts to reach the host."""


class Link(Protocol):
    """A live connection to a host.  Its maker calls `received`, and at its end `lost`."""

    def send(self, message: ToHost) -> None: ...

    def close(self) -> None: ...


Connect = Callable[["HostConnection"], Awaitable[Link]]
"""Reach a host, or raise OSError."""


class HostConnection:
    """At most one link to a host of this version of Braid.

    `_status` is None exactly while no such host is connected.  What comes over the link, and what its loss
    means, is for the classes that extend this one: they override `received` and `lost`.
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._link: Link | None = None
        self._status: Status | None = None
        self._callbacks: list[Callable[[Status | None], None]] = []
        self._mismatch_callbacks: list[Callable[[int], None]] = []
        self._mismatched_pid: int | None = None
        self._lost = asyncio.Event()
        self._had_status = False  # whether this connection brought one
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to connect, in the background; returns before a host was found."""
        self._task = asyncio.create_task(self._stay_connected(), name="engine-connection")

    async def close(self) -> None:
        """Hang up."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._link is not None:
            self._link.close()
        self.lost(Unavailable("the server is shutting down"))

    @property
    def status(self) -> Status | None:
        """The last status of the host and its models; None while it is away."""
        return self._status

    def on_status(self, callback: Callable[[Status | None], None]) -> None:
        """Call `callback` with every Status that comes, and with None when the host is gone."""
        self._callbacks.append(callback)

    @property
    def connected(self) -> bool:
        """Whether a host of this version listens; its first status may still be on its way."""
        return self._link is not None and self._mismatched_pid is None

    def on_mismatch(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with the pid of each host whose messages are those of another version of Braid.

        The client waits for another host meanwhile, as if none listened.
        """
        self._mismatch_callbacks.append(callback)

    def received(self, message: ToWorker) -> None:
        """Take a message that came; links call it."""
        if isinstance(message, Welcome):
            self._compare(message)
        elif isinstance(message, Status):
            self._set_status(message)

    def lost(self, error: BraidError | None = None) -> None:
        """End the connection, as links found it ended; `error` is why, where it is known."""
        self._link = None
        self._lost.set()
        if self._status is not None:
            self._set_status(None)

    def _listening_link(self) -> Link:
        link = self._known_link()
        if self._status is not None and self._status.state == "draining":
            raise Unavailable("the server is shutting down")
        return link

    def _known_link(self) -> Link:
        """The link of a host that has sent its status; it may be draining.  Raises Unavailable."""
        if self._link is None or self._status is None:
            raise Unavailable("the engine is starting")
        return self._link

    def _send(self, message: ToHost) -> None:
        """Send what means nothing to a host that is gone."""
        if self._link is not None:
            self._link.send(message)

    async def _stay_connected(self) -> None:
        """Connect again after each loss, the more rarely the longer no host gives a status."""
        delay_s = FIRST_DELAY_S
        while True:
            self._lost.clear()
            self._had_status = False
            try:
                link = await self._connect(self)
            except OSError:
                pass
            else:
                link.send(Hello(os.getpid(), SCHEMA))
                self._link = link
                await self._lost.wait()
                self._link = None  # again: the connection may have ended before `_connect` returned
            delay_s = FIRST_DELAY_S if self._had_status else min(delay_s * 1.5, LONGEST_DELAY_S)
            await asyncio.sleep(delay_s)

    def _compare(self, message: Welcome) -> None:
        """Hang up on a host of another version."""
        if message.schema == SCHEMA:
            self._mismatched_pid = None
            return
        if self._mismatched_pid != message.engine_pid:
            log.error(
                "the engine host (pid: %d) runs another version of Braid (message schema %s, here %s); "
                "this worker waits for a host of its own version",
                message.engine_pid,
                message.schema,
                SCHEMA,
            )
        self._mismatched_pid = message.engine_pid
        for callback in self._mismatch_callbacks:
            callback(message.engine_pid)
        if self._link is not None:
            self._link.close()

    def _set_status(self, status: Status | None) -> None:
        self._status = status
        self._had_status = self._had_status or status is not None
        for callback in self._callbacks:
            try:
                callback(status)
            except Exception:  # a callback's fault must not end the connection
                log.exception("a callback for the engine's status failed")
