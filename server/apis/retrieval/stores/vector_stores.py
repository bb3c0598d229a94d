"""What a worker has of vector stores: the database, off the event loop, and the folders of indexes."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from server.apis.batches.offline_store import OfflineStore
from server.apis.retrieval.stores.index_readers import IndexReaders
from server.base.settings import Settings
from server.sqlite.off_loop import OffLoop

if TYPE_CHECKING:
    from server.apis.retrieval.stores.database import StoreDatabase

FOLDER, DATABASE = "vector_stores", "vector_stores.sqlite"

P = ParamSpec("P")
T = TypeVar("T")


class VectorStores:
    """Open from start-up to shutdown of the worker.  All is in the folder of files."""

    def __init__(self, settings: Settings, files: OfflineStore) -> None:
        self.files = files
        files.after_delete = self._remove_file
        self.changed = asyncio.Event()
        """Set when a client gave work in this worker."""

        self.readers = IndexReaders()
        self._settings = settings
        self._off_loop = OffLoop("vector stores", self._make)

    def start(self) -> None:
        self.changed = asyncio.Event()
        self._off_loop.start()

    def _make(self) -> StoreDatabase:
        from server.apis.retrieval.stores.database import StoreDatabase, VectorStoreLimits

        settings = self._settings
        limits = VectorStoreLimits(settings.files_count, settings.files_mb << 20, settings.key_share)
        return StoreDatabase(self.files.folder.path / DATABASE, limits)

    @property
    def may_have_work(self) -> bool:
        """Whether a worker of this server, or of one before it, has made a store."""
        path = self._settings.files
        return self._off_loop.is_open or (path is not None and (path / DATABASE).exists())

    async def close(self) -> None:
        await self._off_loop.close()
        await self.readers.close()

    async def run(
        self, function: Callable[Concatenate[StoreDatabase, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """`function(database, *args, **kwargs)` in the stores' thread.

        Raises its BraidError, and Unavailable when the database fails.
        """
        if not self._off_loop.is_open:
            await self.files.open_folder()
        return await self._off_loop.run(function, *args, **kwargs)

    def index_of(self, store_id: str) -> Path:
        """The folder of a store's index."""
        return self.files.folder.path / FOLDER / store_id

    async def remove_index(self, store_id: str) -> None:
        await asyncio.to_thread(shutil.rmtree, self.index_of(store_id), ignore_errors=True)

    async def expire(self) -> None:
        """End the stores that have expired, and remove indexes without a store."""
        await self.files.open_folder()
        folder = self.files.folder.path / FOLDER
        indexes = await asyncio.to_thread(lambda: [child.name for child in folder.glob("*")])
        known = await self.run(lambda database: database.work.expire())  # later: each index has a row before
        for store_id in indexes:
            if store_id not in known:
                await self.remove_index(store_id)

    async def _remove_file(self, file_id: str, account: str) -> None:
        """A client deleted an uploaded file: its passages leave all stores."""
        if self.may_have_work:
            await self.run(lambda database: database.remove_everywhere(file_id, account))
            self.changed.set()
