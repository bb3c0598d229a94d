"""Runs batches in this worker: claims those that no worker runs, renews its leases, gives them back."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import NamedTuple

from pipelines.base.errors import BraidError
from server.apis.batches.batch_models import BatchErrors, LineError
from server.apis.batches.batch_run import BatchRun, Lost
from server.apis.batches.batch_table import StoredBatch
from server.apis.batches.database import OfflineDatabase
from server.apis.batches.line_calls import LineCalls
from server.apis.batches.offline_store import OfflineStore
from server.apis.batches.window import LoadOf
from server.sqlite.leases import new_owner

log = logging.getLogger("braid.server")

LOOK_S = 0.5
"""The seconds between two looks for batches, each with a heartbeat for those that run."""
MAX_RUNS = 2
"""Batches that a worker runs at a time; the others wait."""
EXPIRE_S = 60.0
"""The seconds between two looks for files that have expired."""
TURN_S = 120.0
"""After this time a batch is given back where one of another key waits of which fewer run."""
AFTER_FAILURE_S = 5.0
"""A batch whose run failed waits so long for the next worker."""


class ClaimedBatch(NamedTuple):
    """A batch that this worker runs `since_s`, by the monotonic clock."""

    run: BatchRun
    task: asyncio.Task[None]
    stored: StoredBatch
    since_s: float


class BatchWorker:
    """Belongs to the event loop of a worker; `load_of` gives the engine's load for the name of a model."""

    def __init__(self, store: OfflineStore, calls: LineCalls, load_of: LoadOf) -> None:
        self._store = store
        self._calls = calls
        self._load_of = load_of
        self._owner = new_owner()
        self._runs: dict[int, ClaimedBatch] = {}
        self._looking: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._looking = asyncio.create_task(self._look(), name="batches")

    def stop(self) -> None:
        """The worker is to end: give all batches back, so that another worker goes on with them."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(), name="batches-end")

    async def close(self) -> None:
        self.stop()
        assert self._ending is not None
        await self._ending

    async def _look(self) -> None:
        expired_s = -EXPIRE_S
        while True:
            try:
                await self._store.in_use.wait()
                if time.monotonic() - expired_s > EXPIRE_S:
                    await self._store.expire()
                    expired_s = time.monotonic()
                await self._follow_clients()
                await self._give_turns()
                await self._claim()
            except (BraidError, OSError) as error:  # a failing database was logged
                log.debug("batches wait: %s", error)
            except Exception:
                log.exception("batches wait")
            self._store.changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._store.changed.wait()

    async def _follow_clients(self) -> None:
        """Renew the leases; end what was cancelled, and what another worker has taken."""
        if not self._runs:
            return
        owned = await self._store.run(OfflineDatabase.heartbeat, self._owner, list(self._runs))
        for number, running in list(self._runs.items()):
            if number not in owned:
                running.task.cancel()
            elif owned[number] == "cancelling":
                running.run.stop("cancelled")

    async def _give_turns(self) -> None:
        """Give a batch back that has had its turn, where all places are taken and another key waits."""
        if len(self._runs) < MAX_RUNS:
            return
        for running in [*self._runs.values()]:
            had_turn = time.monotonic() - running.since_s > TURN_S
            if had_turn and await self._store.run(OfflineDatabase.gives_way, running.stored.account):
                running.task.cancel()
                await asyncio.wait({running.task})
                await self._release(running.stored)
                return

    async def _claim(self) -> None:
        while len(self._runs) < MAX_RUNS and self._store.has_room():
            stored = await self._store.run(OfflineDatabase.claim, self._owner)
            if stored is None:
                return
            run = BatchRun(self._store, self._calls, self._owner, stored, self._load_of)
            task = asyncio.create_task(self._run(run, stored), name=stored.batch.id)
            self._runs[stored.number] = ClaimedBatch(run, task, stored, time.monotonic())
            task.add_done_callback(self._remove)

    def _remove(self, ended: asyncio.Task[None]) -> None:
        """A task has ended: one that is cancelled before its first step has run none of its own code."""
        self._runs = {number: each for number, each in self._runs.items() if each.task is not ended}

    async def _run(self, run: BatchRun, stored: StoredBatch) -> None:
        try:
            await run.run()
        except Lost:
            log.warning("another worker took over the batch %s", stored.batch.id)
        except (BraidError, OSError) as fault:
            log.warning("the batch %s was interrupted and goes on later: %s", stored.batch.id, fault)
            await asyncio.sleep(AFTER_FAILURE_S)
            await self._release(stored)
        except Exception:
            log.exception("the batch %s failed", stored.batch.id)
            error = LineError(code="internal_error", message="the server failed on this batch; see its log")
            errors = BatchErrors(object="list", data=[error])
            await self._store.run(OfflineDatabase.fail, stored.number, self._owner, errors)

    async def _release(self, stored: StoredBatch) -> None:
        with suppress(BraidError):
            await self._store.run(OfflineDatabase.release, self._owner, stored.number)

    async def _end(self) -> None:
        tasks = [running.task for running in self._runs.values()]
        if self._looking is not None:
            tasks.append(self._looking)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._store.is_open:
            with suppress(BraidError):
                await self._store.run(OfflineDatabase.release, self._owner)
