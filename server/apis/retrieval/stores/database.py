"""Vector stores and their files in one SQLite file that all workers share: what clients do.

Every call is one transaction and may wait for another worker's: call it off the event loop, from one thread.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from pipelines.base.errors import NotFound, Overloaded, RequestError
from server.apis.retrieval.stores.rows import (
    FILE_COLUMNS,
    FILES_OF_STORE,
    STORE_COLUMNS,
    STORES_OF_ACCOUNT,
    TABLES,
    FileBatchRow,
    NewStoreFile,
    StoreFileRow,
    StoreRow,
    store_file_row,
    store_row,
)
from server.apis.retrieval.stores.work_table import WorkTable
from server.http.admission import may_take
from server.sqlite.connection import connect, transaction
from server.sqlite.pages import ListPage, read_rows

SCHEMA_VERSION = 1
ACTIVE_S = 60.0
"""A search within this time of the last one is not noted."""
MAX_STORE_FILES = 10_000
OF_BATCH = "coalesce(batch, '') = coalesce(?, batch, '')"
"""A condition: the files of a batch, or all where no batch is named."""


class NoStore(NotFound):
    kind = "invalid_request_error"


@dataclass(frozen=True, slots=True)
class VectorStoreLimits:
    """Bounds of all stores together, of which a key alone may have `share`."""

    max_stores: int
    max_bytes: int
    share: float = 1.0


class StoreDatabase:
    """One worker's connection.  `now` is the wall clock, `ticks` a clock that all processes share, in s."""

    def __init__(
        self,
        path: Path,
        limits: VectorStoreLimits,
        now: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises sqlite3.Error and OSError."""
        self._limits, self._now = limits, now
        self._db = connect(path, SCHEMA_VERSION, lambda version: TABLES)
        self._db.execute("PRAGMA synchronous = FULL")  # what a client has read is there after a power failure
        self.work = WorkTable(self._db, now, ticks)

    def close(self) -> None:
        self._db.close()

    # --- stores

    def add(self, store: StoreRow, files: Sequence[NewStoreFile]) -> StoreRow:
        """Raises Overloaded where there is no room."""
        with transaction(self._db):
            self._check_room(store.account)
            self._db.execute(
                "INSERT INTO stores (id, account, name, description, model, metadata, days, created, active)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    store.id,
                    store.account,
                    store.name,
                    store.description,
                    store.model,
                    json.dumps(store.metadata),
                    store.days,
                    store.created,
                    store.active,
                ),
            )
            added = self.store(store.id, store.account)
            self._put(added, files, batch=None)
            return added

    def _check_room(self, account: str) -> None:
        limits = self._limits
        (own, own_bytes), (count, num_bytes) = self._held(account), self._held(None)
        free, free_bytes = limits.max_stores - count, limits.max_bytes - num_bytes
        if not (may_take(limits.share, own, free) and may_take(limits.share, own_bytes, free_bytes, 0)):
            raise Overloaded(
                f"{count} vector stores with {num_bytes} bytes are stored, of them {own} with {own_bytes} "
                "bytes of this API key; delete some (BRAID_FILES_COUNT, BRAID_FILES_MB, BRAID_TENANT_SHARE)"
            )

    def _held(self, account: str | None) -> tuple[int, int]:
        """The number of an account's stores, and their bytes; None: of all."""
        mine = "coalesce(? = stores.account, 1)"
        (count,) = self._db.execute(f"SELECT count(*) FROM stores WHERE {mine}", (account,)).fetchone()
        query = "SELECT coalesce(sum(usage), 0) FROM store_files JOIN stores ON stores.number = store"
        (num_bytes,) = self._db.execute(f"{query} WHERE {mine}", (account,)).fetchone()
        return count, num_bytes

    def store(self, store_id: str, account: str) -> StoreRow:
        """Raises NoStore."""
        query = f"SELECT {STORE_COLUMNS} FROM stores WHERE id = ? AND account = ?"
        columns = self._db.execute(query, (store_id, account)).fetchone()
        if columns is None:
            raise NoStore(f"No vector store found with id '{store_id[:64]}'.", field="vector_store_id")
        return store_row(columns)

    def counted(self, store_id: str, account: str) -> tuple[StoreRow, dict[str, int]]:
        """A store with the number of its files by their status.  Raises NoStore."""
        store = self.store(store_id, account)
        return store, self.counts(store.number)

    def counts(self, number: int, batch: str | None = None) -> dict[str, int]:
        query = f"SELECT status, count(*) FROM store_files WHERE store = ? AND {OF_BATCH} GROUP BY status"
        return dict(self._db.execute(query, (number, batch)))

    def stores(self, account: str, page: ListPage) -> list[tuple[StoreRow, dict[str, int]]]:
        """Raises RequestError for an unknown `after`."""
        rows = read_rows(self._db, STORES_OF_ACCOUNT, {"account": account}, page)
        return [(store, self.counts(store.number)) for store in map(store_row, rows)]

    def change(self, store_id: str, account: str, changes: dict[str, Any]) -> None:
        """Change columns of a store.  Raises NoStore."""
        with transaction(self._db):
            number = self.store(store_id, account).number
            marks = ", ".join(f"{name} = ?" for name in (*changes, "active"))
            values = (*changes.values(), self._now(), number)
            self._db.execute(f"UPDATE stores SET {marks} WHERE number = ?", values)

    def delete(self, store_id: str, account: str) -> None:
        """Raises NoStore."""
        with transaction(self._db):
            number = self.store(store_id, account).number
            self.work.drop_files(number)
            self._db.execute("DELETE FROM file_batches WHERE store = ?", (number,))
            self._db.execute("DELETE FROM stores WHERE number = ?", (number,))

    def use(self, store_id: str, account: str) -> tuple[StoreRow, list[str]]:
        """A store that is searched now, and files whose passages are no longer of it.

        Raises NoStore, and RequestError for a store that has expired.
        """
        store = self._live(store_id, account)
        if self._now() - store.active > ACTIVE_S:
            self.change(store_id, account, {})
        rows = self._db.execute("SELECT id FROM removed_files WHERE store = ?", (store.number,))
        return store, [file_id for (file_id,) in rows]

    def _live(self, store_id: str, account: str) -> StoreRow:
        store = self.store(store_id, account)
        if store.expired:
            raise RequestError(f"The vector store '{store_id}' has expired.", field="vector_store_id")
        return store

    # --- files

    def put(
        self, store_id: str, account: str, files: Sequence[NewStoreFile], in_batch: bool = False
    ) -> tuple[StoreRow, str]:
        """Add files, or add them anew; the store and the id of their batch.

        Raises NoStore, Overloaded, and RequestError for a store that has expired or has too many files.
        """
        with transaction(self._db):
            store, batch = self._live(store_id, account), f"vsfb_{uuid4().hex}"
            self._check_room(account)
            if sum(self.counts(store.number).values()) + len(files) > MAX_STORE_FILES:
                raise RequestError(f"a vector store has {MAX_STORE_FILES} files at most", field="file_ids")
            if in_batch:
                self._db.execute(
                    "INSERT INTO file_batches (id, store, created) VALUES (?, ?, ?)",
                    (batch, store.number, self._now()),
                )
            self._put(store, files, batch if in_batch else None)
            self._db.execute("UPDATE stores SET active = ? WHERE number = ?", (self._now(), store.number))
            return store, batch

    def _put(self, store: StoreRow, files: Sequence[NewStoreFile], batch: str | None) -> None:
        rows = [
            (
                store.number,
                file.id,
                batch,
                file.filename,
                json.dumps(file.attributes),
                json.dumps(file.chunks),
                self._now(),
            )
            for file in files
        ]
        self._db.executemany(
            "INSERT OR REPLACE INTO store_files (store, id, batch, filename, attributes, chunks, created)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        gone = [(store.number, file.id) for file in files]
        self._db.executemany("DELETE FROM removed_files WHERE store = ? AND id = ?", gone)

    def file(self, store_id: str, account: str, file_id: str) -> tuple[StoreRow, StoreFileRow]:
        """Raises NoStore."""
        store = self.store(store_id, account)
        query = f"SELECT {FILE_COLUMNS} FROM store_files WHERE store = ? AND id = ?"
        columns = self._db.execute(query, (store.number, file_id)).fetchone()
        if columns is None:
            raise NoStore(f"No file found with id '{file_id[:64]}' in vector store '{store_id}'.", "file_id")
        return store, store_file_row(columns)

    def files(
        self,
        store_id: str,
        account: str,
        page: ListPage,
        batch: str | None = None,
        status: str | None = None,
    ) -> tuple[StoreRow, list[StoreFileRow]]:
        """Files of a store: of a batch, of a status, or all.

        Raises NoStore, and RequestError for an unknown `after`.
        """
        store = self.store(store_id, account)
        if batch is not None:
            self.file_batch(store_id, account, batch)
        values = {"store": store.number, "batch": batch, "status": status}
        return store, [store_file_row(row) for row in read_rows(self._db, FILES_OF_STORE, values, page)]

    def names(self, number: int, file_ids: Sequence[str]) -> dict[str, str]:
        """The names of files of a store by their ids."""
        marks = ", ".join("?" * len(file_ids))
        query = f"SELECT id, filename FROM store_files WHERE store = ? AND id IN ({marks})"
        return dict(self._db.execute(query, [number, *file_ids]))

    def set_attributes(self, store_id: str, account: str, file_id: str, attributes: dict[str, Any]) -> None:
        """Raises NoStore."""
        with transaction(self._db):
            _, file = self.file(store_id, account, file_id)
            self._db.execute(
                "UPDATE store_files SET attributes = ?, described = (status != 'completed') WHERE number = ?",
                (json.dumps(attributes), file.number),
            )

    def is_described(self, number: int, file_id: str) -> bool:
        """Whether the index has the attributes of a file; True for one that is gone."""
        query = "SELECT described FROM store_files WHERE store = ? AND id = ?"
        row = self._db.execute(query, (number, file_id)).fetchone()
        return row is None or bool(row[0])

    def remove_file(self, store_id: str, account: str, file_id: str) -> None:
        """Raises NoStore."""
        with transaction(self._db):
            store, file = self.file(store_id, account, file_id)
            self._db.execute("DELETE FROM store_files WHERE number = ?", (file.number,))
            self.work.note_removed(store.number, file_id)

    def remove_everywhere(self, file_id: str, account: str) -> None:
        """Remove a file from all stores of an account."""
        mine = "store_files.id = ? AND store IN (SELECT number FROM stores WHERE account = ?)"
        with transaction(self._db):
            query = f"INSERT OR IGNORE INTO removed_files SELECT store, id FROM store_files WHERE {mine}"
            self._db.execute(query, (file_id, account))
            self._db.execute(f"DELETE FROM store_files WHERE {mine}", (file_id, account))

    # --- batches of files

    def file_batch(self, store_id: str, account: str, batch_id: str) -> tuple[StoreRow, FileBatchRow]:
        """Raises NoStore."""
        store = self.store(store_id, account)
        query = "SELECT number, id, store, created, cancelled FROM file_batches WHERE store = ? AND id = ?"
        columns = self._db.execute(query, (store.number, batch_id)).fetchone()
        if columns is None:
            raise NoStore(f"No file batch found with id '{batch_id[:64]}'.", field="batch_id")
        return store, FileBatchRow(*columns)

    def counted_batch(
        self, store_id: str, account: str, batch_id: str
    ) -> tuple[StoreRow, FileBatchRow, dict[str, int]]:
        """A batch with the number of its files by their status.  Raises NoStore."""
        store, batch = self.file_batch(store_id, account, batch_id)
        return store, batch, self.counts(store.number, batch.id)

    def cancel_batch(self, store_id: str, account: str, batch_id: str) -> None:
        """Cancel the files of a batch that are not indexed yet.  Raises NoStore, and RequestError after."""
        with transaction(self._db):
            store, batch, counts = self.counted_batch(store_id, account, batch_id)
            if not counts.get("in_progress"):
                raise RequestError("Cannot cancel a file batch that has ended.", field="batch_id")
            self._db.execute("UPDATE file_batches SET cancelled = 1 WHERE number = ?", (batch.number,))
            waiting = "store = ? AND batch = ? AND status = 'in_progress'"
            self._db.execute(
                f"INSERT OR IGNORE INTO removed_files SELECT store, id FROM store_files WHERE {waiting}",
                (store.number, batch.id),
            )
            self._db.execute(
                f"UPDATE store_files SET status = 'cancelled' WHERE {waiting}", (store.number, batch.id)
            )
