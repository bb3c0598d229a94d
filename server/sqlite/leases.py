"""Leases on rows: a row that is worked on has an `owner` (a worker), which renews `beat` with heartbeats.

Heartbeats are times of a monotonic clock in s, which is the same in all processes of a machine.
"""

from __future__ import annotations

import os
import platform
import sqlite3
from functools import cache
from uuid import uuid4

LEASE_S = 30.0
"""An owner without a heartbeat for this long is dead; one whose process has ended is dead at once.

A machine with too much to do can stop a worker for many seconds: its rows stay its own.
"""

NOT_RUNNING = "(owner IS NULL OR beat <= ? OR beat > ? OR has_ended(owner))"
"""No owner, or a dead one; parameters: those of `lease_bounds`.  The connection has had `add_functions`."""


def lease_bounds(ticks: float) -> tuple[float, float]:
    """The oldest and the newest heartbeat of a live owner; one that is far in the future was before a reboot.

    One that is a little in the future came after `ticks` were read, and before the rows were.
    """
    return ticks - LEASE_S, ticks + LEASE_S


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
