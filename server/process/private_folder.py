"""The private folder of a running server: its socket, heartbeat, metrics, stored responses and snapshots."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "braid-"
MARKER = ".braid-server"
"""A file in every private folder: no other folder is ever removed."""
FALLBACK = "/tmp"
"""Where the folder is made if the path of the system's folder for temporary files is too long."""
MEMORY = "/dev/shm"
"""The folder for temporary files where every disk is full."""
MAX_SOCKET_PATH_BYTES = 100
"""A unix socket's path may have 107 bytes on Linux and 103 elsewhere."""


class PrivateFolder:
    """A new folder for this user alone, locked while this server has a process.

    The lock protects it from cleaners of temporary files (systemd-tmpfiles) and from `remove_left_over`.
    """

    def __init__(self) -> None:
        self.path = _make()
        self._lock = _locked(self.path)
        (self.path / MARKER).touch()

    def remove(self) -> None:
        """Delete it with all that it holds.  Never raises."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)


def remove_left_over() -> list[Path]:
    """Delete the folders of servers of this user that were killed; returns those deleted.  Never raises."""
    return [folder for folder in _candidates() if _remove_if_unlocked(folder)]


def find_place() -> None:
    """Have a folder for temporary files, in this process and those that it starts.

    Raises FileNotFoundError where nothing can be written at all.
    """
    try:
        tempfile.gettempdir()
    except FileNotFoundError:  # the library has written to none of its folders
        if not os.access(MEMORY, os.W_OK):
            raise
        tempfile.tempdir = os.environ["TMPDIR"] = MEMORY


def _make() -> Path:
    """A new folder whose path is short enough for the path of a unix socket in it."""
    find_place()
    folder = tempfile.mkdtemp(prefix=PREFIX)
    if len(os.fsencode(f"{folder}/engine.sock")) > MAX_SOCKET_PATH_BYTES:
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix=PREFIX, dir=FALLBACK)
    return Path(folder)


def _candidates() -> list[Path]:
    find_place()
    places = {Path(tempfile.gettempdir()), Path(FALLBACK), Path(MEMORY)}
    return [folder for place in places for folder in place.glob(f"{PREFIX}*") if (folder / MARKER).is_file()]


def _remove_if_unlocked(folder: Path) -> bool:
    try:
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            return False
        lock = _locked(folder)
    except OSError:
        return False
    if lock is None:
        return False
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)
    return True


def _locked(folder: Path) -> int | None:
    """An open and locked descriptor of the folder; None where another process has the lock."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
