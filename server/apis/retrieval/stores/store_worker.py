"""Indexes the files of vector stores in this worker: claims stores with work, and gives them back."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from pipelines.base.errors import BraidError
from pipelines.retrieval.index_folder import IndexBusy
from server.apis.retrieval.stores.rows import StoreRow
from server.apis.retrieval.stores.vector_stores import VectorStores
from server.apis.retrieval.stores.work_table import StoreWork
from server.services.services import Services
from server.sqlite.leases import LEASE_S, new_owner

if TYPE_CHECKING:
    from server.apis.retrieval.stores.database import StoreDatabase
    from server.apis.retrieval.stores.index_run import IndexRun

log = logging.getLogger("braid.server")

LOOK_S = 0.5
"""The seconds between two looks for stores with work."""
BEAT_S = LEASE_S / 6
EXPIRE_S = 60.0
"""The seconds between two looks for stores that have expired."""
BUSY_S, AFTER_FAILURE_S = 1.0, 5.0
"""How long a store waits whose index another process writes, or whose update failed."""


class StoreWorker:
    """Belongs to the event loop of a worker, and updates one store at a time."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._stores: VectorStores = services.stores
        self._owner = new_owner()
        self._is_ending = False
        self._run: IndexRun | None = None
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._looking = asyncio.create_task(self._look(), name="vector-stores")

    def stop(self) -> None:
        """The worker is to end: what it does is given back, so that another worker goes on."""
        self._is_ending = True
        self._stores.changed.set()
        if self._run is not None:
            self._run.stop()

    async def close(self) -> None:
        self.stop()
        if self._looking is not None:
            await self._looking

    async def _look(self) -> None:
        expired_s = -EXPIRE_S
        while not self._is_ending:
            self._stores.changed.clear()
            has_worked = False
            try:
                if self._stores.may_have_work and time.monotonic() - expired_s > EXPIRE_S:
                    await self._stores.expire()
                    expired_s = time.monotonic()
                may_work = self._stores.may_have_work and self._stores.files.has_room()
                has_worked = may_work and await self._work()
            except (BraidError, OSError) as error:  # a failing database was logged
                log.debug("vector stores wait: %s", error)
            except Exception:
                log.exception("vector stores wait")
            if not has_worked and not self._is_ending:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._stores.changed.wait()

    async def _work(self) -> bool:
        """Do some work of one store; False where none has any."""
        store = await self._stores.run(lambda database: database.work.claim(self._owner))
        if store is None:
            return False
        wait_s = AFTER_FAILURE_S
        try:
            wait_s = await self._update(store)
        finally:
            await self._stores.run(lambda database: database.work.release(store.number, self._owner, wait_s))
        return True

    async def _beat(self, store: StoreRow, work: StoreWork, run: IndexRun) -> None:
        """Keep the store until the update's end; an update that no client waits for any more is stopped."""

        def beat(database: StoreDatabase) -> bool:
            return database.work.heartbeat(store.number, self._owner) and database.work.is_wanted(work)

        while True:
            await asyncio.sleep(BEAT_S)
            with suppress(BraidError):
                if not await self._stores.run(beat):
                    run.stop()

    async def _update(self, store: StoreRow) -> float:
        """Update a store's index; how long the store waits for what is left, in seconds."""
        from server.apis.retrieval.stores.index_run import IndexRun  # a worker starts sooner without it

        work = await self._stores.run(lambda database: database.work.begin(store.number))
        run = self._run = IndexRun(self._services, store, self._stores.index_of(store.id))
        beating = asyncio.create_task(self._beat(store, work, run), name=f"{store.id}-beat")
        try:
            usage, errors = await run.run(work)
        except IndexBusy:
            return await self._given_back(work, BUSY_S)
        except (BraidError, OSError, ValueError, sqlite3.Error) as error:
            if run.is_stopped:
                return await self._given_back(work, 0.0)
            log.warning("the vector store %s is updated later: %s", store.id, error)
            return AFTER_FAILURE_S
        finally:
            beating.cancel()
            self._run = None
        await self._stores.run(lambda database: database.work.finish(store.number, work, usage, errors))
        return 0.0

    async def _given_back(self, work: StoreWork, wait_s: float) -> float:
        await self._stores.run(lambda database: database.work.give_back(work))
        return wait_s
