"""How many requests of a batch are in flight: as many as make the engine full, and a few that wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from pipelines.base.errors import BraidError

FIRST, MIN, MAX = 32, 4, 256
"""Requests in flight: at first, at least, at most."""
LOOK_S = 0.25
"""The seconds between two looks at the engine."""
MIN_WAITING = 8

LoadOf = Callable[[str | None], Awaitable[tuple[int, int]]]
"""Gives how many sequences of a model run and wait in the engine, those of all clients."""


class RequestWindow:
    """0 <= `num_inside` <= `size`, but for a while after `size` has become smaller."""

    def __init__(self) -> None:
        self.size = FIRST
        self.num_inside = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place that `enter` waited for."""
        try:
            yield
        finally:
            self.num_inside -= 1
            async with self._changed:
                self._changed.notify()

    async def enter(self) -> None:
        """Wait for a place and take it."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.num_inside < self.size)
            self.num_inside += 1

    async def follow(self, load: Callable[[], Awaitable[tuple[int, int]]]) -> None:
        """Adapt the size to the engine's load, until cancelled.

        As many should wait as run, so that no step of the engine has places that nothing waits for; more than
        that only hold memory.
        """
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                running, waiting = await load()
            except BraidError:  # no engine, or no such model: the lines themselves get that error
                continue
            self.size = next_size(self.num_inside, running, waiting)
            async with self._changed:
                self._changed.notify_all()


def next_size(num_inside: int, running: int, waiting: int) -> int:
    """The size with which as many sequences wait as should."""
    missing = max(MIN_WAITING, running) - waiting
    return min(MAX, max(MIN, num_inside + missing))
