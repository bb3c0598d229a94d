"""The rows of files: whose they are, their size and their age.  Their content is elsewhere."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Literal
from uuid import uuid4

UploadPurpose = Literal["batch", "assistants", "user_data"]
Purpose = Literal["batch", "assistants", "user_data", "batch_output"]

TABLES = """
CREATE TABLE IF NOT EXISTS files (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    account TEXT NOT NULL,
    purpose TEXT NOT NULL,
    filename TEXT NOT NULL,
    size INTEGER NOT NULL,
    created REAL NOT NULL,
    expires REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS files_of_account ON files (account, number);
"""
COLUMNS = "id, account, purpose, filename, size, created, expires"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of `account`: a digest of an API key, "" where none is needed.  Times in s of the wall clock."""

    id: str
    account: str
    purpose: Purpose
    filename: str
    size: int
    created: float
    expires: float


@dataclass(frozen=True, slots=True)
class ListPage:
    """Which rows of a list a client wants: at most `limit` after the row with the id `after`."""

    limit: int
    after: str | None = None
    newest_first: bool = True
    purpose: str | None = None


def new_file_id() -> str:
    return f"file-{uuid4().hex}"


class FileTable:
    """Does no transactions: callers that write are inside one."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def add(self, files: Iterable[StoredFile]) -> None:
        rows = [astuple(file) for file in files]
        self._db.executemany(f"INSERT INTO files ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def get(self, file_id: str, account: str, now: float) -> StoredFile | None:
        """A file of the account; another's, and one that has expired, is as if it was not stored."""
        query = f"SELECT {COLUMNS} FROM files WHERE id = ? AND account = ? AND expires > ?"
        row = self._db.execute(query, (file_id, account, now)).fetchone()
        return None if row is None else StoredFile(*row)

    def page(self, account: str, page: ListPage, now: float) -> list[StoredFile] | None:
        """One more row than `page.limit` where there are more; None for an unknown `after`."""
        start = place_of(self._db, "files", page.after, account)
        if start is None:
            return None
        sign, order = (">", "ASC") if not page.newest_first else ("<", "DESC")
        past = "" if page.after is None else f" AND number {sign} {start}"
        rows = self._db.execute(
            f"SELECT {COLUMNS} FROM files"
            f" WHERE account = ? AND expires > ? AND coalesce(? = purpose, 1){past}"
            f" ORDER BY number {order} LIMIT ?",
            (account, now, page.purpose, page.limit + 1),
        )
        return [StoredFile(*row) for row in rows]

    def totals(self, account: str | None = None) -> tuple[int, int]:
        """The number of an account's files and their bytes; None: of all."""
        query = "SELECT count(*), coalesce(sum(size), 0) FROM files WHERE coalesce(? = account, 1)"
        count, size = self._db.execute(query, (account,)).fetchone()
        return int(count), int(size)

    def remove(self, file_id: str) -> None:
        self._db.execute("DELETE FROM files WHERE id = ?", (file_id,))

    def expired(self, now: float) -> list[str]:
        rows = self._db.execute("SELECT id FROM files WHERE expires <= ?", (now,))
        return [row[0] for row in rows.fetchall()]

    def ids(self) -> set[str]:
        return {row[0] for row in self._db.execute("SELECT id FROM files").fetchall()}


def place_of(db: sqlite3.Connection, table: str, row_id: str | None, account: str) -> int | None:
    """The number of an account's row; 0 for no id, None for an unknown one."""
    if row_id is None:
        return 0
    query = f"SELECT number FROM {table} WHERE id = ? AND account = ?"
    row = db.execute(query, (row_id, account)).fetchone()
    return None if row is None else int(row[0])
