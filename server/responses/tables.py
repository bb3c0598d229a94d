"""The SQLite file of the store: its tables, a row of them, and a connection.  Knows nothing of their use."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

BUSY_S = 5.0
"""How long a transaction waits for another worker's."""

FORM = 1
"""Of the tables; a file of another form is not touched."""
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
    size INTEGER NOT NULL
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
    item TEXT PRIMARY KEY,
    response TEXT NOT NULL
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
"""`totals` has one row, so that the bounds cost no count over all responses."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One response: `body` is it as JSON, `items` what its model was told, as JSON too."""

    id: str
    status: str
    body: bytes
    items: bytes
    background: bool = False
    owner: str | None = None  # who works on it; None: nobody any more
    item_ids: tuple[str, ...] = ()


def opened(path: Path | None) -> sqlite3.Connection:
    """A connection; without a path to tables in this process's memory.  Raises sqlite3.Error, OSError.

    What people said is for the server's own user to read.
    """
    if path is not None:
        path.touch(mode=0o600)
    db = sqlite3.connect(path or ":memory:", timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    _use_wal(db)
    db.execute("PRAGMA synchronous = NORMAL")
    (form,) = db.execute("PRAGMA user_version").fetchone()
    if form not in (0, FORM):
        db.close()
        raise sqlite3.DatabaseError(f"its form is {form}, not {FORM}: another version of Braid made it")
    db.executescript(f"BEGIN IMMEDIATE; {TABLES} PRAGMA user_version = {FORM}; COMMIT;")
    return db


def _use_wal(db: sqlite3.Connection) -> None:
    """SQLite does not wait by itself where two processes change the mode of a new file at once."""
    deadline_s = time.monotonic() + BUSY_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.02)
