"""The SQLite file of the response store: its schema, the row type, and opening a connection."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BUSY_S = 5.0
"""How long a transaction waits for the lock of another worker."""

SCHEMA_VERSION = 2
"""Version of the tables; a file of version 1 gets the new tables, one of a later version is refused."""
TABLES = """
CREATE TABLE IF NOT EXISTS responses (
    id TEXT PRIMARY KEY,
    status TEXT NOT NULL,
    body BLOB NOT NULL,
    items BLOB NOT NULL,
    background INTEGER NOT NULL,
    owner TEXT,
    beat REAL NOT NULL,
    made REAL NOT NULL,
    size INTEGER NOT NULL,
    account TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS by_age ON responses (made);
CREATE INDEX IF NOT EXISTS by_owner ON responses (owner) WHERE owner IS NOT NULL;
CREATE TABLE IF NOT EXISTS events (
    response TEXT NOT NULL,
    number INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (response, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS item_places (
    item TEXT NOT NULL,
    response TEXT NOT NULL,
    account TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (item, account)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_response ON item_places (response);
CREATE TABLE IF NOT EXISTS totals (
    row INTEGER PRIMARY KEY,
    number INTEGER NOT NULL,
    size INTEGER NOT NULL
);
INSERT OR IGNORE INTO totals VALUES (1, 0, 0);
CREATE TRIGGER IF NOT EXISTS added AFTER INSERT ON responses BEGIN
    UPDATE totals SET number = number + 1, size = size + NEW.size;
END;
CREATE TRIGGER IF NOT EXISTS grown AFTER UPDATE OF size ON responses BEGIN
    UPDATE totals SET size = size + NEW.size - OLD.size;
END;
CREATE TRIGGER IF NOT EXISTS dropped AFTER DELETE ON responses BEGIN
    UPDATE totals SET number = number - 1, size = size - OLD.size;
END;
"""
"""`totals` has one row of running sums, so that checking the limits needs no scan of all responses."""

FROM_VERSION_1 = """
ALTER TABLE responses ADD COLUMN account TEXT NOT NULL DEFAULT '';
ALTER TABLE item_places RENAME TO old_places;
DROP INDEX by_response;
"""
"""It is not known which key made what is stored: any key may read it until it expires, as before."""
ITEMS_FROM_VERSION_1 = """
INSERT INTO item_places (item, response) SELECT item, response FROM old_places;
DROP TABLE old_places;
"""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """One stored response: `body` is the response as JSON, `items` the model's input items as JSON.

    `account` is whose it is: a digest of the API key that made it, "" for everybody's.
    """

    id: str
    status: str
    body: bytes
    items: bytes
    background: bool = False
    owner: str | None = None  # id of the worker that computes it; None once it has ended
    item_ids: tuple[str, ...] = ()
    account: str = ""


def connect(path: Path | None) -> sqlite3.Connection:
    """Open the file, or tables in this process's memory when `path` is None.

    Only the server's user may read the file: it holds conversations.  Raises sqlite3.Error and OSError.
    """
    if path is not None:
        path.touch(mode=0o600)
    db = sqlite3.connect(path or ":memory:", timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    _use_wal(db)
    db.execute("PRAGMA synchronous = NORMAL")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version not in (0, 1, SCHEMA_VERSION):
        db.close()
        raise sqlite3.DatabaseError(
            f"its schema version is {version}, not {SCHEMA_VERSION}: another version of Braid made it"
        )
    _make_tables(db)
    return db


def _make_tables(db: sqlite3.Connection) -> None:
    """Make the tables, or those of version 1 into them; workers that start together take turns."""
    db.execute("BEGIN IMMEDIATE")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    steps = [FROM_VERSION_1, TABLES, ITEMS_FROM_VERSION_1] if version == 1 else [TABLES]
    for statement in _statements("".join(steps)):
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    db.execute("COMMIT")


def _statements(script: str) -> Iterator[str]:
    """The statements of a script; `executescript` would commit the transaction that is open."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _use_wal(db: sqlite3.Connection) -> None:
    """Switch to write-ahead logging; retries because SQLite's busy timeout does not cover this statement."""
    deadline_s = time.monotonic() + BUSY_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.02)
