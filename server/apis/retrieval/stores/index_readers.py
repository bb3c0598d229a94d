"""The indexes that this worker searches: opened when they are wanted, closed when they are not."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pipelines.base.errors import Unavailable

if TYPE_CHECKING:
    from pipelines.retrieval.index_reader import IndexReader

MAX_OPEN = 32
UNUSED_S = 300.0
"""An index that was not searched for this long is closed when another one is opened."""

T = TypeVar("T")


class IndexReaders:
    """All searches of a worker take turns in one thread, which alone opens and closes indexes."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._open: dict[Path, tuple[IndexReader, float]] = {}  # the last one used is the last one

    async def read(self, path: Path, function: Callable[[IndexReader], T], without: T) -> T:
        """What a function makes of an index; `without` where nothing was written yet.

        Raises Unavailable where it is damaged.
        """
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="vector-stores-search")
        return await asyncio.get_running_loop().run_in_executor(
            self._thread, self._read, path, function, without
        )

    def _read(self, path: Path, function: Callable[[IndexReader], T], without: T) -> T:
        try:
            reader = self._open.pop(path)[0] if path in self._open else self._opened(path)
            self._open[path] = reader, time.monotonic()
            return function(reader)
        except FileNotFoundError:
            return without
        except (OSError, ValueError, sqlite3.Error) as error:
            raise Unavailable(f"the index of the vector store cannot be read: {error}") from error

    def _opened(self, path: Path) -> IndexReader:
        oldest_s = time.monotonic() - UNUSED_S
        for other, (reader, used_s) in [*self._open.items()]:
            if used_s < oldest_s or len(self._open) >= MAX_OPEN:
                del self._open[other]
                reader.close()
        from pipelines.retrieval.index_reader import IndexReader  # a worker starts sooner without it

        return IndexReader(path, check_s=0.0)

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._close)
            thread.shutdown()

    def _close(self) -> None:
        while self._open:
            self._open.popitem()[1][0].close()
