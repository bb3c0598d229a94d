"""The versions of an index on disk: one is current, and a new one takes its place in one step.

index/
├── current        the number of the version that readers open
├── 7/             a version: its files never change
└── .lock          held by the process that writes the next one, in a hidden folder until it is whole
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CURRENT, LOCK = "current", ".lock"
PARTIAL = ".new-"
"""What begins the name of a version that is being written."""


class IndexBusy(Exception):
    """Another process writes this index."""


class IndexFolder:
    """The folder of an index.  Readers never wait, and what they have opened stays whole until they close it.

    A version is published whole, or not at all: after a crash or on a full disk the one before is current.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def number(self) -> int | None:
        """The number of the current version; None where nothing was written yet.  Raises ValueError."""
        try:
            text = (self.path / CURRENT).read_text(encoding="ascii")
        except FileNotFoundError:
            return None
        if not text.strip().isdecimal():
            raise ValueError(f"{self.path / CURRENT} holds no number: the index is damaged; write it again")
        return int(text)

    def version(self, number: int) -> Path:
        """The folder of a version."""
        return self.path / str(number)

    def is_kept(self, number: int) -> bool:
        """Whether a version is the current one, or the one before, which no writer removes yet."""
        return self.number() in (number, number + 1)

    @contextmanager
    def next_version(self) -> Iterator[Path]:
        """A new folder, which becomes the current version at the end of the block.

        An error in the block removes it and changes nothing.  Raises IndexBusy where another process writes,
        OSError, and ValueError where `current` is damaged.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with self._locked():
            self._remove_partial()
            number = (self.number() or 0) + 1
            folder = self.path / f"{PARTIAL}{number}"
            folder.mkdir()
            try:
                yield folder
                self._publish(folder, number)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            self._remove_older(number)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.path / LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise IndexBusy(f"another process writes {self.path}; try again when it has ended") from None
            yield

    def _publish(self, folder: Path, number: int) -> None:
        for file in folder.iterdir():
            if file.stat().st_nlink == 1:  # others are shared with a version that was synced
                _sync(file)
        _sync(folder)
        shutil.rmtree(self.version(number), ignore_errors=True)  # of a crash between the next two lines
        folder.rename(self.version(number))
        pointer = self.path / f"{PARTIAL}{CURRENT}"
        pointer.write_text(f"{number}\n", encoding="ascii")
        _sync(pointer)
        pointer.replace(self.path / CURRENT)
        _sync(self.path)

    def _remove_partial(self) -> None:
        """Remove what writers that were killed have left."""
        for left in self.path.glob(f"{PARTIAL}*"):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)

    def _remove_older(self, number: int) -> None:
        """Remove all but the current version and the one before, which a reader may be about to open."""
        for child in self.path.iterdir():
            if child.name.isdecimal() and int(child.name) < number - 1:
                shutil.rmtree(child, ignore_errors=True)


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
