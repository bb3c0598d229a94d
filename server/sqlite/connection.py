"""Opens an SQLite file that all workers share, makes its tables, and runs transactions on it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from server.sqlite import leases

BUSY_S = 5.0
"""How long a transaction waits for the lock of another worker."""
MAX_LOG_BYTES = 4 << 20
"""What the write-ahead log is cut to after a larger transaction, once its pages are in the file."""


def connect(
    path: Path | None, version: int, tables: Callable[[int], str], older: tuple[int, ...] = ()
) -> sqlite3.Connection:
    """Open the file, or tables in this process's memory when `path` is None.

    `tables` gives the statements that make the tables of `version` out of a file of another version: 0 for a
    new one, or one of `older`.  Only the server's user may read the file.  Raises sqlite3.Error and OSError.
    """
    if path is not None:
        path.touch(mode=0o600)
    db = sqlite3.connect(path or ":memory:", timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        leases.add_functions(db)
        _prepare(db, version, tables, older)
    except BaseException:
        db.close()
        raise
    return db


def _prepare(
    db: sqlite3.Connection, version: int, tables: Callable[[int], str], older: tuple[int, ...]
) -> None:
    _use_wal(db)
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute(f"PRAGMA journal_size_limit = {MAX_LOG_BYTES}")
    (version_found,) = db.execute("PRAGMA user_version").fetchone()
    if version_found not in (0, *older, version):
        raise sqlite3.DatabaseError(
            f"its schema version is {version_found}, not {version}: another version of Braid made it"
        )
    if version_found != version:
        _make_tables(db, version, tables)


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """One write transaction; it takes the write lock at its start, not at its first write."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite itself has ended some that found no room on the disk
            db.execute("ROLLBACK")
        raise


def _make_tables(db: sqlite3.Connection, version: int, tables: Callable[[int], str]) -> None:
    """Make the tables, or those of an older version into them; workers that start together take turns."""
    with transaction(db):
        (found,) = db.execute("PRAGMA user_version").fetchone()
        if found == version:  # another worker has made them meanwhile
            return
        for statement in _statements(tables(found)):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {version}")


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
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not is_busy or time.monotonic() > deadline_s:
                raise
            time.sleep(0.02)
