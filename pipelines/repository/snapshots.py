"""Where the snapshots of a host's model instances are stored."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import tempfile
from itertools import count
from pathlib import Path

import psutil

from pipelines.repository.model_folders import ModelFolder
from pipelines.repository.snapshot import Snapshot, take_snapshot

log = logging.getLogger("braid.host")

PREFIX = "braid-models-"
MEMORY = Path("/dev/shm")
"""Where a snapshot is stored that the disk has no room for."""


class Snapshots:
    """Takes a snapshot for each load.  Belongs to the loader's thread, but for `close`."""

    def __init__(self, parent: Path | None = None) -> None:
        """Stores snapshots in a new folder in `parent`, or in the system's folder for temporary files."""
        self._parent = parent
        self._folders: dict[Path | None, Path] = {}
        self._numbers = count(1)

    def take(self, folder: ModelFolder) -> Snapshot:
        """Copy the small files of a folder.  Raises SnapshotError and OSError."""
        try:
            return self._take(folder, self._parent)
        except OSError as error:
            if not _is_of_disk(error) or not MEMORY.is_dir():
                raise
            log.warning("the snapshot of %s is taken in %s: %s", folder.name, MEMORY, error)
            return self._take(folder, MEMORY)

    def _take(self, folder: ModelFolder, parent: Path | None) -> Snapshot:
        if parent not in self._folders:
            self._folders[parent] = _make_folder(parent)
        place = self._folders[parent] / str(next(self._numbers))
        return take_snapshot(folder.path, place, folder.files())

    def close(self) -> None:
        """Remove every snapshot."""
        for folder in list(self._folders.values()):
            shutil.rmtree(folder, ignore_errors=True)


def _is_of_disk(error: OSError) -> bool:
    """Whether a disk takes nothing more, be it full or read-only."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def _make_folder(parent: Path | None) -> Path:
    """Removes what earlier hosts that were killed have left in `parent`, unless other servers use it too."""
    if parent is not None and parent != MEMORY:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in parent.glob(f"{PREFIX}*"):
            if not psutil.pid_exists(int(left.name.split("-")[2])):
                shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=parent))
