"""The room that fetched models of a repository take together: those that are there, and those on their way.

.pulling-lock               held while a pull looks whether it has room
.pulling-PID-DIGEST.bytes   the bytes that a pull which runs will have taken at its end
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from pipelines.base.digests import digest
from pipelines.base.file_lock import locked
from pipelines.hub.base.errors import NoRoom
from pipelines.hub.base.sizes import shown_gb
from pipelines.hub.model_folder import NEW, folder_bytes, noted_folders

LOCK, END = f"{NEW}lock", ".bytes"


@dataclass(frozen=True)
class FetchRoom:
    """The room for the model of one folder; `max_bytes` bounds all models that were fetched into the
    repository, None: nothing does.
    """

    repository: Path
    folder: Path
    max_bytes: int | None

    @contextmanager
    def reserved(self, num_bytes: int) -> Iterator[None]:
        """Until the block ends, other pulls leave this room to the model.  Raises NoRoom, OSError."""
        if self.max_bytes is None:
            yield
            return
        self.repository.mkdir(parents=True, exist_ok=True)
        key = digest(str(self.folder).encode(), num_bytes=8)
        note = self.repository / f"{NEW}{os.getpid()}-{key}{END}"
        with locked(self.repository / LOCK):
            self.check(num_bytes)
            note.write_text(str(num_bytes))
        try:
            yield
        finally:
            note.unlink(missing_ok=True)

    def check(self, num_bytes: int) -> None:
        """Raise NoRoom where a model of this size has no room beside the others."""
        if self.max_bytes is None:
            return
        folders = (folder for folder in noted_folders(self.repository) if folder != self.folder)
        running = map(int, notes_of_others(self.repository, NEW, END))
        whole = num_bytes + sum(map(folder_bytes, folders)) + sum(running)
        if whole > self.max_bytes:
            raise NoRoom(
                f"{self.folder.name}: fetched models would take {shown_gb(whole)}, of the "
                f"{shown_gb(self.max_bytes)} that BRAID_PULL_GB allows"
            )


def notes_of_others(folder: Path, start: str, end: str) -> Iterator[str]:
    """What other processes wrote into files of these names, the pid between `start` and a dash or `end`; what
    one left that was killed is removed.
    """
    for note in folder.glob(f"{start}*{end}"):
        owner = note.name.removeprefix(start).removesuffix(end).partition("-")[0]
        if owner == str(os.getpid()):
            continue
        if not (owner.isdecimal() and psutil.pid_exists(int(owner))):
            note.unlink(missing_ok=True)
            continue
        with suppress(OSError):  # it ends now
            if text := note.read_text():
                yield text
