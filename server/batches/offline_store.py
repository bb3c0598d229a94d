"""What a worker has of files and batches: the database, off the event loop, and the folder of contents."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from server.batches.database import OfflineDatabase, OfflineLimits
from server.batches.input_lines import LineLimits
from server.files.content_folder import ContentFolder
from server.settings import Settings
from server.sqlite.off_loop import OffLoop

P = ParamSpec("P")
T = TypeVar("T")

DAY_S = 86_400.0


class OfflineStore:
    """Open from start-up to shutdown of the worker; without a folder of its own from the first use on."""

    def __init__(self, settings: Settings) -> None:
        self.max_file_bytes = settings.file_mb << 20
        self.max_age_s = settings.files_days * DAY_S
        self.lines = LineLimits(settings.batch_lines, settings.max_body_mb << 20)
        self.limits = OfflineLimits(settings.files_count, settings.files_mb << 20, settings.batches_per_key)
        self.changed = asyncio.Event()
        """Set when a client made or cancelled a batch in this worker."""

        self.opened = asyncio.Event()

        self._path = settings.files
        self._off_loop: OffLoop[OfflineDatabase] = OffLoop("store of files and batches")
        self._folder: ContentFolder | None = None
        self._opening = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        return self._folder is not None

    async def start(self) -> None:
        """Raises RuntimeError when the folder cannot be used."""
        self.opened, self.changed, self._opening = asyncio.Event(), asyncio.Event(), asyncio.Lock()
        if self._path is not None:
            await self._open()

    async def _open(self) -> None:
        try:
            folder = ContentFolder(self._path)
            folder.open()
            await self._off_loop.open(lambda: OfflineDatabase(folder.database, self.limits))
            self._folder = folder
            self.opened.set()
        except (OSError, sqlite3.Error) as error:
            raise RuntimeError(f"files cannot be stored in {self._path}: {error}") from error

    async def close(self) -> None:
        await self._off_loop.close()
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    @property
    def folder(self) -> ContentFolder:
        assert self._folder is not None, "the store is not open"
        return self._folder

    async def run(
        self, function: Callable[Concatenate[OfflineDatabase, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """`function(database, *args, **kwargs)` in the store's thread.

        Raises its BraidError, and Unavailable when the database fails.
        """
        async with self._opening:
            if not self.is_open:
                await self._open()
        return await self._off_loop.run(function, *args, **kwargs)

    async def expire(self) -> None:
        """Remove files that have expired, and what processes that were killed left on the disk."""
        expired, known = await self.run(OfflineDatabase.expire)

        def remove() -> None:
            for file_id in expired:
                self.folder.remove(file_id)
            self.folder.sweep(known)

        await asyncio.to_thread(remove)
