"""What a worker has of files and batches: the database, off the event loop, and the folder of contents."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, TypeVar

from server.apis.batches.database import OfflineDatabase, OfflineLimits
from server.apis.batches.files.content_folder import ContentFolder
from server.apis.batches.input_lines import LineLimits
from server.base.disk_space import DiskReserve
from server.base.settings import Settings
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
        self.limits = OfflineLimits(
            settings.files_count, settings.files_mb << 20, settings.batches_per_key, settings.key_share
        )
        self.changed = asyncio.Event()
        """Set when a client made or cancelled a batch in this worker."""

        self.in_use = asyncio.Event()
        """Set where there may be files and batches: from the first use on, or from the start."""

        self.after_delete: Callable[[str, str], Awaitable[None]] | None = None
        """Called with the id and the account of a file that a client deleted."""

        self._path = settings.files
        self._reserve = DiskReserve(settings.disk_reserve_mb << 20)
        self._off_loop = OffLoop("store of files and batches", self._make)
        self._folder: ContentFolder | None = None

    @property
    def is_open(self) -> bool:
        return self._off_loop.is_open

    async def start(self) -> None:
        """Raises RuntimeError when the folder cannot be used; each use tries it again."""
        self.in_use, self.changed = asyncio.Event(), asyncio.Event()
        self._off_loop.start()
        if self._path is not None:
            self.in_use.set()
            await self.open()

    async def open(self) -> None:
        """Raises RuntimeError when the folder cannot be used."""
        try:
            await self._off_loop.open()
        except (OSError, sqlite3.Error) as error:
            raise RuntimeError(f"files cannot be stored in {self._path}: {error}") from error

    async def open_folder(self) -> None:
        """Make the folder, where there is none yet.  Raises Unavailable and StorageFull."""
        await self.run(lambda database: None)

    def _make(self) -> OfflineDatabase:
        self._folder = self._folder or ContentFolder(self._path)
        self._folder.open()
        return OfflineDatabase(self._folder.database, self.limits)

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
        self.in_use.set()
        return await self._off_loop.run(function, *args, **kwargs)

    def has_room(self, num_bytes: int = 0) -> bool:
        """Whether `num_bytes` more leave the disk its reserve."""
        return self._folder is None or self._reserve.has_room(self._folder.path, num_bytes)

    def check_disk(self, num_bytes: int = 0) -> None:
        """Raise StorageFull where they do not."""
        self._reserve.check(self.folder.path, num_bytes)

    async def delete(self, file_id: str, account: str) -> None:
        """Delete a file of an account: the content first, so that a full disk has room to note it.

        Raises NoFile, and RequestError for the input of a batch that has not ended.
        """
        await self.run(OfflineDatabase.check_deletable, file_id, account)
        await asyncio.to_thread(self.folder.remove, file_id)
        await self.run(OfflineDatabase.delete_file, file_id, account)
        if self.after_delete is not None:
            await self.after_delete(file_id, account)

    async def expire(self) -> None:
        """Remove files that have expired, and what processes that were killed left on the disk."""
        expired, known = await self.run(OfflineDatabase.expire)

        def remove() -> None:
            for file_id in expired:
                self.folder.remove(file_id)
            self.folder.sweep(known)

        await asyncio.to_thread(remove)
