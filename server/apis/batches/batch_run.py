"""One batch on its way: its input is checked, its lines run, its results become files.

Every step is written before the next one begins, and only while this worker has the batch: so another worker
goes on where this one was killed, and no line has two results.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import nullcontext
from itertools import islice
from typing import Any

from pipelines.telemetry import batches as counts
from pipelines.wire.host_errors import ENGINE_DIED
from server.apis.batches.batch_models import BatchErrors, LineError, RequestTotals, Status
from server.apis.batches.batch_table import Result, StoredBatch
from server.apis.batches.database import OfflineDatabase
from server.apis.batches.input_lines import InputLine, check_lines, decode, read_lines
from server.apis.batches.line_calls import LineCalls, LineReply
from server.apis.batches.offline_store import OfflineStore
from server.apis.batches.output_files import write_files
from server.apis.batches.result_lines import answered, not_run
from server.apis.batches.window import LoadOf, RequestWindow

READ_LINES = 64
"""Lines that are read at a time."""
WRITE_S = 0.05
"""Results of this time are written at once."""
AGAIN = (429, 503)
"""Statuses of replies that say: later."""
AGAIN_S, MAX_AGAIN_S = 0.5, 10.0
"""The seconds before a line is sent again the first time, and at most before a later one."""
GIVE_UP_S = 900.0
"""After this time the reply that says "later" is the result."""
EXPIRED = "This request could not be executed before the completion window expired."
FULL = "the server has no room for more results (BRAID_FILES_MB)"


MAX_DEATHS = 2
"""Deaths of the engine during a line, after which that is not sent again."""
FATAL = "The engine died twice while it worked on this request; it is not sent again."


class Lost(Exception):
    """Another worker has the batch now."""


class BatchRun:
    """A batch that this worker, `owner`, has claimed."""

    def __init__(
        self, store: OfflineStore, calls: LineCalls, owner: str, stored: StoredBatch, load_of: LoadOf
    ) -> None:
        self._store = store
        self._calls = calls
        self._owner = owner
        self._stored = stored
        self._number = stored.number
        self._input = store.folder.file(stored.batch.input_file_id)
        self._load_of = load_of
        self._model = stored.batch.model
        self._unwritten: list[Result] = []
        self._ends_as: Status = "completed"
        self._stopped = asyncio.Event()
        self._suspected = asyncio.Lock()  # one of the lines that ran when the engine died

    def stop(self, ends_as: Status) -> None:
        """No further line runs; those in flight are ended."""
        if not self._stopped.is_set():
            self._ends_as = ends_as
            self._stopped.set()

    async def run(self) -> None:
        """To the end of the batch.  Raises Lost, and BraidError where the store fails."""
        status = self._stored.batch.status
        if status == "validating":
            if not await self._validate():
                return
            status = "in_progress"
        if status == "in_progress":
            await self._work()
            if self._ends_as == "expired":
                await self._expire_rest()
            fields: dict[str, Any] = {"errors": _full()} if self._ends_as == "failed" else {}
            self._check(
                await self._store.run(
                    OfflineDatabase.finalize, self._number, self._owner, self._ends_as, fields
                )
            )
        await write_files(self._store, self._stored, self._owner)

    async def _validate(self) -> bool:
        """Whether the batch is in progress now: else it has ended, or a client cancelled it."""
        checked = await asyncio.to_thread(
            check_lines, self._input, self._stored.batch.endpoint or None, self._store.lines
        )
        if checked.errors:
            fail = OfflineDatabase.fail
            self._check(await self._store.run(fail, self._number, self._owner, checked.as_errors))
            return False
        self._model = checked.model
        totals = RequestTotals(total=checked.total, completed=0, failed=0)
        begun = await self._store.run(
            OfflineDatabase.begin,
            self._number,
            self._owner,
            {"model": checked.model, "request_counts": totals},
        )
        if not begun:
            self.stop("cancelled")
        return True

    async def _work(self) -> None:
        """Run the lines that have no result, until the last, the end of the window of time, or `stop`."""
        done = await self._store.run(OfflineDatabase.done_lines, self._number)
        writing = asyncio.create_task(self._write())
        feeding = asyncio.create_task(self._feed(done))
        stopped = asyncio.create_task(self._stopped.wait())
        try:
            left_s = max(0.0, self._stored.expires - time.time())
            tasks = {writing, feeding, stopped}
            await asyncio.wait(tasks, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            if not (feeding.done() or writing.done() or stopped.done()):
                self.stop("expired")
        finally:
            for task in (stopped, feeding, writing):
                task.cancel()
            ended = await asyncio.gather(feeding, writing, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error
        await self._flush()

    async def _feed(self, done: set[int]) -> None:
        window = RequestWindow()
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(window.follow(lambda: self._load_of(self._model)))
            running: set[asyncio.Task[None]] = set()
            async for number, line in self._lines(done):
                await window.enter()
                task = tasks.create_task(self._one(window, number, line))
                running.add(task)
                task.add_done_callback(running.discard)
                await asyncio.sleep(0)  # other requests take turns with each line that begins
            if running:
                await asyncio.wait(running)
            following.cancel()

    async def _lines(self, done: set[int]) -> AsyncIterator[tuple[int, InputLine]]:
        """The lines without a result; read and decoded in a thread."""
        lines = (
            (number, decode(line))
            for number, line in read_lines(self._input, self._store.lines.max_line_bytes)
            if number not in done
        )

        def take() -> list[tuple[int, InputLine]]:
            return list(islice(lines, READ_LINES))

        while read := await asyncio.to_thread(take):
            for line in read:
                yield line

    async def _one(self, window: RequestWindow, number: int, line: InputLine) -> None:
        async with window.place():
            with counts.running():
                reply = await self._reply(line)
            if reply is None:
                result = not_run(number, line.custom_id, "engine_died", FATAL)
            elif reply.is_json:
                result = answered(number, line.custom_id, reply.status, reply.request_id, reply.body)
            else:
                result = not_run(number, line.custom_id, "not_json", "a batch holds replies that are JSON")
            self._unwritten.append(result)

    async def _reply(self, line: InputLine) -> LineReply | None:
        """The endpoint's reply; while it says "later", the request is sent again.

        None where the engine has died of it, as it seems.  One of those that ran when it died is sent again
        at a time, so that others are not taken for the cause.
        """
        wait_s, give_up_s, num_deaths = AGAIN_S, time.monotonic() + GIVE_UP_S, 0
        while True:
            async with self._suspected if num_deaths else nullcontext():
                reply = await self._calls.post(line.url, bytes(line.body), self._stored.account)
            num_deaths += reply.status in AGAIN and ENGINE_DIED.encode() in reply.body
            if num_deaths >= MAX_DEATHS:
                return None
            if reply.status not in AGAIN or time.monotonic() > give_up_s:
                return reply
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, MAX_AGAIN_S)

    async def _write(self) -> None:
        while True:
            await asyncio.sleep(WRITE_S)
            await self._flush()

    async def _flush(self) -> None:
        """Write the results that are there; those of a failed write are written with the next."""
        results, self._unwritten = self._unwritten, []
        if not results:
            return
        try:
            wrote = await self._store.run(OfflineDatabase.add_results, self._number, self._owner, results)
        except BaseException:
            self._unwritten = results + self._unwritten
            raise
        self._check(wrote)
        counts.ended(results)
        is_over = await self._store.run(OfflineDatabase.is_over_share, self._stored.account)
        if is_over or await self._store.run(OfflineDatabase.is_full):
            self.stop("failed")
        self._store.check_disk()

    async def _expire_rest(self) -> None:
        done = await self._store.run(OfflineDatabase.done_lines, self._number)
        async for number, line in self._lines(done):
            self._unwritten.append(not_run(number, line.custom_id, "batch_expired", EXPIRED))
            if len(self._unwritten) >= READ_LINES:
                await self._flush()
        await self._flush()

    def _check(self, has_it: bool) -> None:
        if not has_it:
            raise Lost


def _full() -> BatchErrors:
    return BatchErrors(object="list", data=[LineError(code="storage_full", message=FULL)])
