"""Runs the calls of a database in one thread, off the event loop."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar

from pipelines.errors import Unavailable

log = logging.getLogger("braid.server")


class Database(Protocol):
    def close(self) -> None: ...


D = TypeVar("D", bound=Database)
P = ParamSpec("P")
T = TypeVar("T")


class OffLoop(Generic[D]):
    """Async access to a database: `await off_loop.run(function, …)`.  `what` names it in error texts."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._database: D | None = None
        self._thread: ThreadPoolExecutor | None = None

    async def open(self, make: Callable[[], D]) -> None:
        """Open the database that `make` makes, in the thread.  Raises what it raises."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=self._what.replace(" ", "-"))
        self._database = await asyncio.get_running_loop().run_in_executor(self._thread, make)

    async def close(self) -> None:
        if self._thread is not None and self._database is not None:
            database, self._database = self._database, None
            await asyncio.get_running_loop().run_in_executor(self._thread, database.close)
            self._thread.shutdown()

    async def run(self, function: Callable[Concatenate[D, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`function(database, *args, **kwargs)` in the thread.  Raises Unavailable when it fails."""
        database = self._database
        if database is None:
            raise Unavailable(f"the {self._what} is not open: the server is starting or stopping")
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, lambda: function(database, *args, **kwargs))
        except sqlite3.Error as error:
            log.error("the %s failed", self._what, exc_info=error)
            raise Unavailable(f"the {self._what} cannot be read or written") from None
