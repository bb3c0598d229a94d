"""Where the user's own files that can be made again are stored, and how folders of them appear whole."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

UNFINISHED = ".unfinished-"


def default_cache() -> Path:
    """The user's folder for files that can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "braid"


@contextmanager
def appearing(entry: Path) -> Iterator[Path]:
    """A new folder to write into, which becomes `entry` at the end of the block, whole or not at all.

    What was written is on the disk before the folder has its name, so that no entry is torn when power is
    lost.  Where another process was faster, its folder stays.  Raises OSError.
    """
    with unfinished(entry.parent) as scratch:
        yield scratch
        for path in (*scratch.rglob("*"), scratch):
            _write_through(path)
        try:
            scratch.rename(entry)
        except OSError:
            if not entry.is_dir():
                raise
        _write_through(entry.parent)


def _write_through(path: Path) -> None:
    """Wait until a file or the names in a folder are on the disk.  Raises OSError."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextmanager
def unfinished(parent: Path) -> Iterator[Path]:
    """A new folder in `parent` that is gone after the block; this process has it locked.  Raises OSError."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch, opened = _new_locked(parent)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        os.close(opened)


def _new_locked(parent: Path) -> tuple[Path, int]:
    """A new folder, and what it is open as."""
    while True:
        scratch = Path(tempfile.mkdtemp(prefix=f"{UNFINISHED}{os.getpid()}-", dir=parent))
        opened = os.open(scratch, os.O_RDONLY)
        with suppress(OSError):  # a file system without such locks
            fcntl.flock(opened, fcntl.LOCK_EX)
        if scratch.exists():  # another process has not removed it before it was locked
            return scratch, opened
        os.close(opened)


def is_unfinished(entry: Path) -> bool:
    """Whether a folder was not completed, perhaps yet."""
    return entry.name.startswith(UNFINISHED)


def remove_left(entries: Iterable[Path]) -> None:
    """Remove the unfinished folders of processes that are gone, of this machine or another one.

    Such a process holds no lock any more.
    """
    for entry in filter(is_unfinished, entries):
        with suppress(OSError):  # it is being written, or was removed
            opened = os.open(entry, os.O_RDONLY)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry, ignore_errors=True)
            finally:
                os.close(opened)
