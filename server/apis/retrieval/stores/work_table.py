"""Which stores have work, who does it, and what became of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from server.apis.retrieval.stores.rows import (
    FILE_COLUMNS,
    STORE_COLUMNS,
    StoreFileRow,
    StoreRow,
    store_file_row,
    store_row,
)
from server.sqlite.connection import transaction
from server.sqlite.leases import Leases

DAY_S = 86_400.0
MAX_FILES = 64
"""Files that are indexed by one update."""
MAX_TRIES = 5
"""After this many updates that failed or whose process died, a file is given up."""
ALONE = 2
"""A file that was tried this often is tried alone: it may be what the others failed by."""
HAS_WORK = (
    "(EXISTS (SELECT 1 FROM store_files WHERE store = stores.number"
    " AND (status = 'in_progress' OR NOT described))"
    " OR EXISTS (SELECT 1 FROM removed_files WHERE store = stores.number))"
)
GIVEN_UP = ("server_error", "the server failed on this file again and again; see its log")


@dataclass(frozen=True, slots=True)
class StoreWork:
    """What the index of a store lacks: files to add, attributes to change, files to remove."""

    added: list[StoreFileRow]
    described: list[StoreFileRow]
    removed: list[str]


class WorkTable:
    """Each call is a transaction, but for those that say otherwise."""

    def __init__(self, db: sqlite3.Connection, now: Callable[[], float], ticks: Callable[[], float]) -> None:
        self._db, self._now = db, now
        self._leases = Leases(db, "stores", ticks)

    def claim(self, owner: str) -> StoreRow | None:
        """A store with work and without a live owner, which `owner` has now: the one that waited longest."""
        if self._waiting() is None:
            return None
        with transaction(self._db):
            number = self._waiting()
            if number is None:
                return None
            self._leases.take(number, owner)
            query = f"SELECT {STORE_COLUMNS} FROM stores WHERE number = ?"
            return store_row(self._db.execute(query, (number,)).fetchone())

    def _waiting(self) -> int | None:
        """The number of the store that waited longest."""
        condition = f"NOT expired AND later <= :now AND {HAS_WORK}"
        return self._leases.first(condition, {"now": self._now()}, "beat")

    def heartbeat(self, number: int, owner: str) -> bool:
        """Renew a lease; False where `owner` lost the store."""
        with transaction(self._db):
            return number in self._leases.renew(owner, [number])

    def is_wanted(self, work: StoreWork) -> bool:
        """Whether a client still wants some of the work; not a transaction.

        Files of stores that were deleted, or that were cancelled, added anew or removed, are wanted no more.
        """
        if not work.added:
            return True
        marks = ", ".join("?" * len(work.added))
        query = f"SELECT count(*) FROM store_files WHERE status = 'in_progress' AND number IN ({marks})"
        (count,) = self._db.execute(query, [file.number for file in work.added]).fetchone()
        return bool(count)

    def release(self, number: int, owner: str, wait_s: float = 0.0) -> None:
        """Give a store back; nothing is done for it before `wait_s`."""
        with transaction(self._db):
            later = self._now() + wait_s if wait_s else 0.0
            query = "UPDATE stores SET later = ? WHERE number = ? AND owner = ?"
            self._db.execute(query, (later, number, owner))
            self._leases.release(owner, number)

    def begin(self, number: int) -> StoreWork:
        """The next work of a store; a file that was tried too often has failed."""
        with transaction(self._db):
            self._db.execute(
                "UPDATE store_files SET status = 'failed', error = ?"
                " WHERE store = ? AND status = 'in_progress' AND tries >= ?",
                (json.dumps(GIVEN_UP), number, MAX_TRIES),
            )
            waiting = self._files(number, "status = 'in_progress'")
            if waiting and waiting[0].tries >= ALONE:
                waiting = waiting[:1]
            self._db.executemany(
                "UPDATE store_files SET tries = tries + 1 WHERE number = ?",
                [(file.number,) for file in waiting],
            )
            rows = self._db.execute("SELECT id FROM removed_files WHERE store = ?", (number,))
            removed = [file_id for (file_id,) in rows]
            return StoreWork(waiting, self._files(number, "NOT described"), removed)

    def _files(self, number: int, condition: str) -> list[StoreFileRow]:
        query = (
            f"SELECT {FILE_COLUMNS} FROM store_files WHERE store = ? AND {condition} ORDER BY number LIMIT ?"
        )
        return [store_file_row(columns) for columns in self._db.execute(query, (number, MAX_FILES))]

    def give_back(self, work: StoreWork) -> None:
        """Work that was not begun, or that a worker which ends has left: it does not count as a try."""
        with transaction(self._db):
            rows = [(file.number,) for file in work.added]
            self._db.executemany("UPDATE store_files SET tries = tries - 1 WHERE number = ?", rows)

    def finish(
        self, number: int, work: StoreWork, usage: Mapping[str, int], errors: Mapping[str, tuple[str, str]]
    ) -> None:
        """Work was done: `usage` gives the bytes of added files in the index, `errors` why others are not.

        What clients changed meanwhile is work again.
        """
        with transaction(self._db):
            gone = [(number, file_id) for file_id in work.removed]
            self._db.executemany("DELETE FROM removed_files WHERE store = ? AND id = ?", gone)
            for file in work.added:
                self._end(file, usage, errors)
            self._db.executemany(
                "UPDATE store_files SET described = 1 WHERE number = ? AND attributes = ?",
                [(file.number, json.dumps(file.attributes)) for file in work.described],
            )

    def _end(
        self, file: StoreFileRow, usage: Mapping[str, int], errors: Mapping[str, tuple[str, str]]
    ) -> None:
        """Note that a file is in the index, or why it is not, unless it is not of the store any more."""
        error = errors.get(file.id)
        attributes = json.dumps(file.attributes)
        self._db.execute(
            "UPDATE store_files SET status = ?, usage = ?, error = ?, described = (attributes = ?)"
            " WHERE number = ? AND status = 'in_progress'",
            (
                "failed" if error else "completed",
                usage.get(file.id, 0),
                json.dumps(error),
                attributes,
                file.number,
            ),
        )

    def note_removed(self, number: int, file_id: str) -> None:
        """A file's passages are to leave the index; inside a transaction."""
        self._db.execute("INSERT OR IGNORE INTO removed_files VALUES (?, ?)", (number, file_id))

    def drop_files(self, number: int) -> None:
        """Remove the rows of a store's files; inside a transaction."""
        for table in ("store_files", "removed_files"):
            self._db.execute(f"DELETE FROM {table} WHERE store = ?", (number,))

    def expire(self) -> set[str]:
        """End the stores that were not used for too long; the ids of those that are left."""
        with transaction(self._db):
            query = "SELECT number FROM stores WHERE NOT expired AND active + days * ? < ?"
            for (number,) in self._db.execute(query, (DAY_S, self._now())).fetchall():
                self.drop_files(number)
                self._db.execute("UPDATE stores SET expired = 1 WHERE number = ?", (number,))
            return {store_id for (store_id,) in self._db.execute("SELECT id FROM stores WHERE NOT expired")}
