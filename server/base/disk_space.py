"""What a disk without room, or one that fails, means to a client; and the room that clients leave free."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipelines.base.errors import Unavailable

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
MOST_OF_A_DISK = 20
"""at most one part in MOST of a disk is left free, so that small ones can be used."""


class StorageFull(Unavailable):
    """The disk has no room for what a client sent or asked to be stored."""

    status, kind = 507, "InsufficientStorageError"


def storage_error(error: OSError | sqlite3.Error, what: str) -> Unavailable:
    """The error for clients: 507 where the disk is full, else 503.  `what` could not be used."""
    if _is_full(error):
        return StorageFull(f"{what} cannot be written: the disk of the server is full")
    return Unavailable(f"{what} cannot be read or written")


def _is_full(error: OSError | sqlite3.Error) -> bool:
    if isinstance(error, OSError):
        return error.errno in FULL
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)


@contextmanager
def storage_errors() -> Iterator[None]:
    """Errors of the disk within the block, of a client's file, are Unavailable, or StorageFull."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, "the file") from error


@dataclass(frozen=True, slots=True)
class DiskReserve:
    """The bytes of a disk that are left free by what clients store: at most a twentieth of it."""

    num_bytes: int

    def check(self, folder: Path, num_bytes: int = 0) -> None:
        """Raise StorageFull where the disk of `folder` has no room for these bytes beside the reserve."""
        if not self.has_room(folder, num_bytes):
            raise StorageFull(
                "the disk of the server has no room but its reserve (BRAID_DISK_RESERVE_MB); delete files"
            )

    def has_room(self, folder: Path, num_bytes: int = 0) -> bool:
        """True where it cannot be known: then writing fails."""
        try:
            disk = shutil.disk_usage(folder)
        except OSError:
            return True
        return disk.free - num_bytes >= min(self.num_bytes, disk.total // MOST_OF_A_DISK)
