"""Leases on rows: a row that is worked on has an `owner` (a worker), which renews `beat` with heartbeats.

Heartbeats are times of a monotonic clock in s, which is the same in all processes of a machine.
"""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any
from uuid import uuid4

LEASE_S = 30.0
"""An owner without a heartbeat for this long is dead; one whose process has ended is dead at once.

A machine with too much to do can stop a worker for many seconds: its rows stay its own.
"""

NOT_RUNNING = "(owner IS NULL OR beat <= :oldest_beat OR beat > :newest_beat OR has_ended(owner))"
"""No owner, or a dead one; the parameters are those of `Leases.bounds`."""


class Leases:
    """The leases on the rows of `table`, which `key` names.  `ticks` is the clock of heartbeats, in s.

    Does no transactions: callers that write are inside one.  The connection has had `add_functions`.
    """

    def __init__(
        self, db: sqlite3.Connection, table: str, ticks: Callable[[], float], key: str = "number"
    ) -> None:
        self._db, self._table, self._ticks, self._key = db, table, ticks, key

    def bounds(self) -> dict[str, float]:
        """The oldest and the newest heartbeat of a live owner; one far in the future was before a reboot.

        One that is a little in the future came after the clock was read, and before the rows were.
        """
        now_s = self._ticks()
        return {"oldest_beat": now_s - LEASE_S, "newest_beat": now_s + LEASE_S}

    def first(self, condition: str, values: Mapping[str, Any], order: str, tables: str = "") -> Any | None:
        """The key of the first row that has no live owner; None without any.

        `tables` is a WITH clause, `values` are parameters by name.
        """
        query = (
            f"{tables} SELECT {self._key} FROM {self._table} WHERE {condition} AND {NOT_RUNNING}"
            f" ORDER BY {order} LIMIT 1"
        )
        row = self._db.execute(query, {**self.bounds(), **values}).fetchone()
        return None if row is None else row[0]

    def take(self, key: Any, owner: str) -> None:
        """`owner` has the row from now on."""
        query = f"UPDATE {self._table} SET owner = ?, beat = ? WHERE {self._key} = ?"
        self._db.execute(query, (owner, self._ticks(), key))

    def renew(self, owner: str, keys: Iterable[Any]) -> set[Any]:
        """Note heartbeats of the owner for these rows; the keys of all rows that it still has."""
        query = f"UPDATE {self._table} SET beat = ? WHERE {self._key} = ? AND owner = ?"
        self._db.executemany(query, [(self._ticks(), key, owner) for key in keys])
        rows = self._db.execute(f"SELECT {self._key} FROM {self._table} WHERE owner = ?", (owner,))
        return {key for (key,) in rows}

    def release(self, owner: str, key: Any | None = None) -> None:
        """Another worker may have this row of the owner's now, or all of them."""
        query = f"UPDATE {self._table} SET owner = NULL WHERE owner = ? AND coalesce(? = {self._key}, 1)"
        self._db.execute(query, (owner, key))


def new_owner() -> str:
    """A name for a part of this process that owns rows: `has_ended` finds the process in it."""
    return f"{_process_space()} {os.getpid()} {uuid4().hex}"


def has_ended(owner: str | None) -> bool:
    """Whether the process of an owner is known to have ended; False for one that is no process here."""
    process, _, _ = (owner or "").rpartition(" ")
    space, _, process_id = process.rpartition(" ")
    if space != _process_space():
        return False
    try:
        os.kill(int(process_id), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def add_functions(db: sqlite3.Connection) -> None:
    """Make `has_ended` known to the SQL of a connection."""
    db.create_function("has_ended", 1, has_ended)


@cache
def _process_space() -> str:
    """Where this process's id is valid: a container has ids of its own."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return platform.node()
