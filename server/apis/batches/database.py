"""Files and batches in one SQLite file that all workers share, bounded in number and bytes.

Every call is one transaction and may wait for another worker's: call it off the event loop, from one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.base.errors import NotFound, Overloaded, RequestError
from server.apis.batches import batch_table
from server.apis.batches.batch_models import Batch, BatchErrors, Status
from server.apis.batches.batch_table import BatchTable, Result, StoredBatch, can_be_cancelled
from server.apis.batches.files import file_table
from server.apis.batches.files.file_table import FileTable, StoredFile
from server.http.admission import may_take
from server.sqlite.connection import connect, transaction
from server.sqlite.pages import ListPage

SCHEMA_VERSION = 1
MAX_BATCHES = 10_000
"""Batches that are stored; beyond that the oldest that have ended are removed."""


class NoFile(NotFound):
    kind = "invalid_request_error"


class NoBatch(NotFound):
    kind = "invalid_request_error"


@dataclass(frozen=True, slots=True)
class OfflineLimits:
    """Bounds of all files together, with results that are in no file yet; `max_batches` of one key run.

    A key alone may have `share` of the files and of the bytes.
    """

    max_files: int
    max_bytes: int
    max_batches: int
    share: float = 1.0


class OfflineDatabase:
    """One worker's connection.  `now` is the wall clock, `ticks` a clock that all processes share, in s."""

    def __init__(
        self,
        path: Path,
        limits: OfflineLimits,
        now: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises sqlite3.Error and OSError."""
        self._limits = limits
        self._now = now
        tables = file_table.TABLES + batch_table.TABLES
        self._db = connect(path, SCHEMA_VERSION, lambda version: tables)
        self._db.execute("PRAGMA synchronous = FULL")  # what a client has read is there after a power failure
        self._files = FileTable(self._db)
        self._batches = BatchTable(self._db, ticks)

    def close(self) -> None:
        self._db.close()

    # --- files

    def check_room(self, account: str, num_bytes: int) -> None:
        """Raise Overloaded where there is no room for a file of an account of this many bytes."""
        (own, own_bytes), (count, size) = self._held(account), self._held(None)
        share, free = self._limits.share, self._limits.max_files - count
        if not may_take(share, own, free) or not self._may_write(own_bytes, size, num_bytes):
            raise Overloaded(
                f"{count} files with {size} bytes are stored, of them {own} files with {own_bytes} bytes of "
                "this API key; delete some (BRAID_FILES_COUNT, BRAID_FILES_MB, BRAID_TENANT_SHARE)"
            )

    def _held(self, account: str | None) -> tuple[int, int]:
        """The number of an account's files, and its bytes; None: of all."""
        count, size = self._files.totals(account)
        return count, size + self._batches.num_bytes(account)

    def _may_write(self, own_bytes: int, num_bytes: int, more: int) -> bool:
        return may_take(self._limits.share, own_bytes, self._limits.max_bytes - num_bytes, more)

    def add_file(self, file: StoredFile) -> None:
        """Raises Overloaded where it has no room."""
        with transaction(self._db):
            self.check_room(file.account, file.size)
            self._files.add([file])

    def file(self, file_id: str, account: str) -> StoredFile:
        """Raises NoFile."""
        found = self._files.get(file_id, account, self._now())
        if found is None:
            raise NoFile(f"No such File object: {file_id[:64]}", field="id")
        return found

    def files(self, account: str, page: ListPage, purpose: str | None = None) -> list[StoredFile]:
        """Raises RequestError for an unknown `after`."""
        return self._files.page(account, page, purpose, self._now())

    def check_deletable(self, file_id: str, account: str) -> None:
        """Raises NoFile, and RequestError for the input of a batch that has not ended."""
        self.file(file_id, account)
        if self._batches.is_input(file_id):
            raise RequestError("a batch that has not ended reads this file; cancel it first", field="id")

    def delete_file(self, file_id: str, account: str) -> None:
        """Raises what `check_deletable` raises."""
        with transaction(self._db):
            self.check_deletable(file_id, account)
            self._files.remove(file_id)

    def expire(self) -> tuple[list[str], set[str]]:
        """Remove files that have expired: their ids, and those of all files that are left."""
        with transaction(self._db):
            expired = [each for each in self._files.expired(self._now()) if not self._batches.is_input(each)]
            for file_id in expired:
                self._files.remove(file_id)
            return expired, self._files.ids()

    # --- batches, for clients

    def add_batch(self, batch: Batch, account: str, output_s: float | None) -> None:
        """Raises RequestError for an input file that is none, Overloaded beyond the limits."""
        with transaction(self._db):
            file = self._files.get(batch.input_file_id, account, self._now())
            if file is None:
                raise RequestError(f"there is no file {batch.input_file_id[:64]!r}", field="input_file_id")
            if file.purpose != "batch":
                raise RequestError(
                    f"the purpose of the file is {file.purpose}; it must be batch", field="input_file_id"
                )
            if self._batches.num_unfinished(account) >= self._limits.max_batches:
                raise Overloaded(
                    f"{self._limits.max_batches} batches of this API key have not ended "
                    "(BRAID_BATCHES_PER_KEY); try again later"
                )
            self._batches.add(batch, account, output_s)
            self._batches.remove_oldest(MAX_BATCHES)

    def batch(self, batch_id: str, account: str) -> Batch:
        """Raises NoBatch."""
        return self._batch(batch_id, account).batch

    def batches(self, account: str, page: ListPage) -> list[Batch]:
        """Raises RequestError for an unknown `after`."""
        return self._batches.page(account, page)

    def cancel(self, batch_id: str, account: str) -> Batch:
        """Raises NoBatch, and RequestError for a batch that has ended or writes its files."""
        with transaction(self._db):
            stored = self._batch(batch_id, account)
            if not can_be_cancelled(stored.batch):
                raise RequestError(
                    f"Cannot cancel a batch with status '{stored.batch.status}'.", field="batch_id"
                )
            self._batches.change(stored, "cancelling", self._now())
            self._batches.end_as(stored.number, "cancelled")
        return self.batch(batch_id, account)

    def _batch(self, batch_id: str, account: str) -> StoredBatch:
        found = self._batches.get(batch_id, account)
        if found is None:
            raise NoBatch(f"No batch found with id '{batch_id[:64]}'.", field="batch_id")
        return found

    # --- batches, for their owners

    def claim(self, owner: str) -> StoredBatch | None:
        """A batch without a live owner, if there is one; `owner` has it from now on."""
        if not self._batches.has_unowned():
            return None
        with transaction(self._db):
            return self._batches.claim(owner)

    def heartbeat(self, owner: str, numbers: Iterable[int]) -> dict[int, str]:
        with transaction(self._db):
            return self._batches.heartbeat(owner, numbers)

    def release(self, owner: str, number: int | None = None) -> None:
        with transaction(self._db):
            self._batches.release(owner, number)

    def begin(self, number: int, owner: str, fields: dict[str, Any]) -> bool:
        """A batch that was validated is in progress; False where `owner` lost it or a client cancelled it."""
        with transaction(self._db):
            stored = self._batches.owned(number, owner)
            if stored is None or stored.batch.status != "validating":
                return False
            self._batches.change(stored, "in_progress", self._now(), **fields)
            return True

    def finalize(self, number: int, owner: str, ends_as: Status, fields: dict[str, Any]) -> bool:
        """The last result is there; False where `owner` lost the batch.  A cancelled batch stays one."""
        with transaction(self._db):
            stored = self._batches.owned(number, owner)
            if stored is not None and stored.batch.status == "in_progress":
                self._batches.change(stored, "finalizing", self._now(), **fields)
                self._batches.end_as(number, ends_as)
            return stored is not None

    def end(self, number: int, owner: str, files: Sequence[StoredFile], fields: dict[str, Any]) -> bool:
        """A batch ends, with its files; False, with nothing written, where `owner` lost it."""
        with transaction(self._db):
            stored = self._batches.owned(number, owner)
            if stored is None:
                return False
            self._batches.change(stored, stored.ends_as, self._now(), **fields)
            self._files.add(files)
            self._batches.ended(number)
            return True

    def fail(self, number: int, owner: str, errors: BatchErrors) -> bool:
        """The input of a batch that is validated is invalid; False where `owner` lost it.

        A batch that was cancelled meanwhile is cancelled.
        """
        with transaction(self._db):
            stored = self._batches.owned(number, owner)
            if stored is None:
                return False
            status: Status = "cancelled" if stored.batch.status == "cancelling" else "failed"
            self._batches.change(stored, status, self._now(), errors=errors)
            self._batches.ended(number)
            return True

    def add_results(self, number: int, owner: str, results: Iterable[Result]) -> bool:
        with transaction(self._db):
            return self._batches.add_results(number, owner, results)

    def is_full(self) -> bool:
        """Whether the files, and the results that are in none yet, have more bytes than they may."""
        return self._files.totals()[1] + self._batches.num_bytes() > self._limits.max_bytes

    def is_over_share(self, account: str) -> bool:
        """Whether an account has more bytes than its share of them."""
        return not self._may_write(self._held(account)[1], self._held(None)[1], 0)

    def gives_way(self, account: str) -> bool:
        return self._batches.gives_way(account)

    def done_lines(self, number: int) -> set[int]:
        return self._batches.done_lines(number)

    def results(self, number: int, after: int, limit: int) -> list[Result]:
        return self._batches.results(number, after, limit)
