"""Runs the calls of a database in one thread, off the event loop."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar

from pipelines.base.errors import Unavailable
from server.base.disk_space import StorageFull, storage_error

log = logging.getLogger("braid.server")


class Database(Protocol):
    def close(self) -> None: ...


D = TypeVar("D", bound=Database)
P = ParamSpec("P")
T = TypeVar("T")


class OffLoop(Generic[D]):
    """Async access to a database: `await off_loop.run(function, …)`.  `what` names it in error texts.

    It is opened by the first call; where that fails, by the next one, so that it works once the disk does.
    """

    def __init__(self, what: str, make: Callable[[], D]) -> None:
        self._what = what
        self._make = make
        self._database: D | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._fault = ""  # the last one that was logged, while it lasts

    @property
    def is_open(self) -> bool:
        return self._database is not None

    def start(self) -> None:
        """Take calls."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=self._what.replace(" ", "-"))

    async def open(self) -> None:
        """Open the database now.  Raises sqlite3.Error and OSError."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._opened)

    def _opened(self) -> D:
        if self._database is None:
            self._database = self._make()
        return self._database

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        database, self._database = self._database, None
        if thread is not None and database is not None:
            await asyncio.get_running_loop().run_in_executor(thread, database.close)
        if thread is not None:
            thread.shutdown()

    async def run(self, function: Callable[Concatenate[D, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`function(database, *args, **kwargs)` in the thread.

        Raises Unavailable when it fails, StorageFull where the disk is full.
        """
        if self._thread is None:
            raise Unavailable(f"the {self._what} is not open: the server is starting or stopping")
        loop = asyncio.get_running_loop()
        try:
            result = await loop.run_in_executor(
                self._thread, lambda: function(self._opened(), *args, **kwargs)
            )
        except (sqlite3.Error, OSError) as error:
            raise self._logged(error) from None
        self._fault = ""
        return result

    def _logged(self, error: sqlite3.Error | OSError) -> Unavailable:
        """The error for clients; the fault is logged once: on a full disk there may be many a second."""
        public = storage_error(error, f"the {self._what}")
        if str(error) != self._fault:
            self._fault = str(error)
            is_full = isinstance(public, StorageFull)
            log.error("the %s failed: %s", self._what, error, exc_info=None if is_full else error)
        return public
