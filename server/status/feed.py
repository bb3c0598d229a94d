"""Snapshots for those who watch: one a second for all of them, none without a watcher."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable

MAX_WATCHERS = 64
"""The most watchers of one worker; each holds a connection and gets some kilobytes a second."""
PERIOD_S = 1.0


class StatusFeed:
    """The newest snapshot of each model that is watched, for each account that sees its own requests alone.

    Belongs to the event loop.
    """

    def __init__(self, make: Callable[[str | None, str | None], Awaitable[bytes]]) -> None:
        """`make(model, account)` makes a snapshot; account None: of all requests."""
        self._make = make
        self._newest: dict[tuple[str | None, str | None], asyncio.Task[tuple[float, bytes]]] = {}
        self._watchers: set[Watcher] = set()
        self._ended = False

    def watch(self, model: str | None, account: str | None = None) -> Watcher:
        """A new watcher of a model, of the default one with None; close it."""
        watcher = Watcher(self, model, account)
        if self._ended:
            watcher.close()
        self._watchers.add(watcher)
        return watcher

    def leave(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)

    def end(self) -> None:
        """No watcher waits any more: the worker ends."""
        self._ended = True
        for watcher in list(self._watchers):
            watcher.close()

    async def latest(self, model: str | None, account: str | None = None) -> tuple[float, bytes]:
        """A snapshot that is at most PERIOD_S old, and when it was made by the monotonic clock."""
        newest = self._newest.get((model, account))
        if newest is None or (newest.done() and _is_old(newest)):
            newest = asyncio.create_task(self._snapshot(model, account), name="status")
            self._newest = {
                key: one for key, one in self._newest.items() if not one.done() or not _is_old(one)
            }
            self._newest[model, account] = newest
        return await asyncio.shield(newest)

    async def _snapshot(self, model: str | None, account: str | None) -> tuple[float, bytes]:
        started_s = time.monotonic()
        return started_s, await self._make(model, account)


def _is_old(task: asyncio.Task[tuple[float, bytes]]) -> bool:
    if task.cancelled() or task.exception() is not None:
        return True
    return time.monotonic() - task.result()[0] >= PERIOD_S


class Watcher:
    """One client that reads snapshots until it leaves or the worker ends."""

    def __init__(self, feed: StatusFeed, model: str | None, account: str | None) -> None:
        self._feed = feed
        self._model = model
        self._account = account
        self._left = asyncio.Event()

    def close(self) -> None:
        self._left.set()
        self._feed.leave(self)

    async def snapshots(self) -> AsyncIterator[bytes]:
        """The newest snapshot, and each that follows."""
        last_s = -math.inf
        while not self._left.is_set():
            made_s, data = await self._feed.latest(self._model, self._account)
            if made_s > last_s:
                yield data
            last_s = made_s
            wait_s = made_s + PERIOD_S - time.monotonic()
            try:
                async with asyncio.timeout(max(0.01, wait_s)):
                    await self._left.wait()
            except TimeoutError:
                continue
