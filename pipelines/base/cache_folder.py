"""Where the user's own files that can be made again are stored, and how folders of them appear whole."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

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
    """A new folder in `parent` that is gone after the block.  Raises OSError."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"{UNFINISHED}{os.getpid()}-", dir=parent))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def is_unfinished(entry: Path) -> bool:
    """Whether a folder was not completed, perhaps yet."""
    return entry.name.startswith(UNFINISHED)


def is_left(scratch: Path) -> bool:
    """Whether the process that wrote an unfinished folder is gone."""
    return not psutil.pid_exists(int(scratch.name.split("-")[1]))
