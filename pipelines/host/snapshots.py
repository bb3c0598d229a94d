"""Where the snapshots of a host's model instances are stored."""

from __future__ import annotations

import os
import shutil
import tempfile
from itertools import count
from pathlib import Path

import psutil

from pipelines.repository.model_folders import ModelFolder
from pipelines.repository.snapshot import Snapshot, take_snapshot

PREFIX = "braid-models-"


class Snapshots:
    """Takes a snapshot for each load.  Belongs to the loader's thread, but for `close`."""

    def __init__(self, parent: Path | None = None) -> None:
        """They are stored in a new folder in `parent`, or in the system's folder for temporary files."""
        self._parent = parent
        self._folder: Path | None = None
        self._numbers = count(1)

    def take(self, folder: ModelFolder) -> Snapshot:
        """Copy the small files of a folder.  Raises SnapshotError and OSError."""
        if self._folder is None:
            self._folder = self._make_folder()
        return take_snapshot(folder.path, self._folder / str(next(self._numbers)), folder.files())

    def close(self) -> None:
        """Remove every snapshot."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _make_folder(self) -> Path:
        """Removes what earlier hosts that were killed have left in `parent`."""
        if self._parent is not None:
            self._parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in self._parent.glob(f"{PREFIX}*"):
                if not psutil.pid_exists(int(left.name.split("-")[2])):
                    shutil.rmtree(left, ignore_errors=True)
        return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=self._parent))
