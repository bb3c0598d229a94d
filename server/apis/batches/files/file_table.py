"""The rows of files: whose they are, their size and their age.  Their content is elsewhere."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Literal
from uuid import uuid4

from server.sqlite.pages import ListPage, RowList, read_rows

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
OF_ACCOUNT = RowList(
    "files",
    COLUMNS,
    scope="account = :account",
    shown="expires > :now AND coalesce(:purpose = purpose, 1)",
)


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

    def page(self, account: str, page: ListPage, purpose: str | None, now: float) -> list[StoredFile]:
        """Files of the account, of one purpose or of all, as `read_rows` gives them."""
        values = {"account": account, "now": now, "purpose": purpose}
        return [StoredFile(*row) for row in read_rows(self._db, OF_ACCOUNT, values, page)]

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
