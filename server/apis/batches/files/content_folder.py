"""The folder with the content of files: one file on disk for each, which is there whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from server.base.disk_space import storage_errors

PART = ".part"
"""The ending of a file that is being written."""
ABANDONED_S = 3600.0
"""What belongs to no row, and was not written to for this long, was left by a process that was killed."""


class ContentFolder:
    """Only the server's user may read it.  `path` None: a temporary folder, which `close` removes."""

    def __init__(self, path: Path | None) -> None:
        self._is_temporary = path is None
        self.path = path or Path(tempfile.mkdtemp(prefix="braid-files-"))

    def open(self) -> None:
        """Raises OSError where the folder cannot be made."""
        self._content.mkdir(mode=0o700, parents=True, exist_ok=True)

    def close(self) -> None:
        if self._is_temporary:
            shutil.rmtree(self.path, ignore_errors=True)

    @property
    def database(self) -> Path:
        return self.path / "batches.sqlite"

    @property
    def _content(self) -> Path:
        return self.path / "content"

    def file(self, file_id: str) -> Path:
        return self._content / file_id

    @contextmanager
    def writing(self, file_id: str) -> Iterator[BinaryIO]:
        """A new file, durable under its id when the block ends; nothing is left of a block that fails.

        Raises StorageFull where the disk is full, Unavailable where it fails.
        """
        part = self._content / (file_id + PART)
        try:
            with storage_errors(), open(part, "wb", opener=_for_this_user) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            with storage_errors():
                part.rename(self.file(file_id))
                self._sync()
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def read(self, file_id: str) -> BinaryIO:
        """Raises Unavailable where its content cannot be read."""
        with storage_errors():
            return self.file(file_id).open("rb")

    def remove(self, file_id: str) -> None:
        """Remove the content.  A disk that fails leaves it, for `sweep`."""
        with suppress(OSError):
            self.file(file_id).unlink(missing_ok=True)

    def sweep(self, known: set[str]) -> None:
        """Remove what processes that were killed left behind: all that is old and not `known`."""
        oldest = time.time() - ABANDONED_S
        for path in self._content.iterdir():
            if path.name not in known and path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)

    def _sync(self) -> None:
        """Make the names of files durable."""
        folder = os.open(self._content, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _for_this_user(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
