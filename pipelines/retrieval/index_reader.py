"""An index, opened for searches, which follows its newest version."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pipelines.retrieval.about import About
from pipelines.retrieval.dense_vectors import Floats
from pipelines.retrieval.file_sums import DAMAGED
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.index_version import Query, Version
from pipelines.retrieval.passages import Passages
from pipelines.retrieval.version_files import RestCheck, VersionFiles
from pipelines.values.search_values import Hit

log = logging.getLogger("braid.retrieval")

CHECK_S, AFTER_FAULT_S = 1.0, 5.0
"""How long a version is searched before it is looked whether there is a newer one, in seconds, and after one
that cannot be opened: its files may have to be read each time.
"""


class IndexReader:
    """Searches the current version of an index; a newer one is opened when it is there.

    Several threads may search at a time; they take turns.  While one opens a newer version, the others search
    that which is open.
    """

    def __init__(
        self, path: Path, clock: Callable[[], float] = time.monotonic, check_s: float = CHECK_S
    ) -> None:
        """Opens the current version; with a `check_s` of 0 each search waits for a newer one.

        Raises FileNotFoundError without one, else as `Version`, and ValueError where a file is missing or
        damaged.  Of a large index not all files are read here, but while it is searched.
        """
        self._folder, self._clock, self._check_s = IndexFolder(path), clock, check_s
        self._lock = threading.Lock()
        """Held while the version that is open is searched, or closed."""
        self._opening = threading.Lock()
        """Held while a newer version is looked for, and opened."""
        self._files = VersionFiles()
        self._number, self._version, self._rest = self._open()
        self._look_s = clock() + check_s
        self._fault = ""
        self._is_closed = False

    @property
    def about(self) -> About:
        return self._version.about

    def search(self, queries: Sequence[Query], vectors: Floats) -> list[list[Hit]]:
        """The hits of each query; as `Version.search`, and ValueError since a file was found damaged, and
        of a reader that is closed.
        """
        self._follow()
        with self._lock:
            version = self._opened()
            if self._rest.fault:
                raise ValueError(self._rest.fault)
            return version.search(queries, vectors)

    def read(self, function: Callable[[Passages], Any]) -> Any:
        """What a function makes of the passages.  Raises ValueError of a reader that is closed."""
        self._follow()
        with self._lock:
            return function(self._opened().passages)

    def check_sums(self) -> None:
        """Read all files of the version that is open.  Raises ValueError where one is damaged, OSError."""
        with self._lock:
            version = self._opened()
            for path in self._files.check(version.folder, version.about.files):
                self._files.read(path, version.about.files[path.name])

    def close(self) -> None:
        """Close the version that is open.  A second call has no effect."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._close()

    def _opened(self) -> Version:
        if self._is_closed:
            raise ValueError(f"the index {self._folder.path} was closed: its model is being unloaded")
        return self._version

    def _close(self) -> None:
        self._rest.stop()
        self._version.close()

    def _follow(self) -> None:
        """Open a newer version, unless another thread does; where that fails, the one that is open stays."""
        if not self._opening.acquire(blocking=self._check_s == 0):
            return
        try:
            now_s = self._clock()
            if now_s >= self._look_s and not self._is_closed:
                self._look_s = now_s + self._check_s
                self._open_newer()
        except (OSError, ValueError, sqlite3.Error) as error:
            if str(error) != self._fault:
                log.error("the index %s stays at version %s: %s", self._folder.path, self._number, error)
            self._fault, self._look_s = str(error), now_s + AFTER_FAULT_S
        finally:
            self._opening.release()

    def _open_newer(self) -> None:
        """Raises as `_open`."""
        if self._folder.number() == self._number:
            return
        number, version, rest = self._open()
        with self._lock:
            if self._is_closed:
                rest.stop()
                version.close()
                return
            self._close()
            self._number, self._version, self._rest, self._fault = number, version, rest, ""

    def _open(self) -> tuple[int, Version, RestCheck]:
        """The current version.  One that a writer may have begun to remove meanwhile is not taken."""
        for _ in range(3):
            number = self._folder.number()
            if number is None:
                raise FileNotFoundError(f"{self._folder.path} holds no index: write one with `braid index`")
            try:
                version, left = self._checked(self._folder.version(number))
            except (OSError, ValueError, sqlite3.Error) as error:
                if not self._folder.is_kept(number):
                    continue
                if isinstance(error, FileNotFoundError):
                    raise ValueError(f"{error.filename} is missing: {DAMAGED}") from None
                raise
            if self._folder.is_kept(number):
                return number, version, RestCheck(self._files, left, version.about.files)
            version.close()
        raise OSError(f"{self._folder.path} changes faster than it can be opened")

    def _checked(self, folder: Path) -> tuple[Version, Sequence[Path]]:
        """A version, opened, and those of its files that are still to be read."""
        left = self._files.check(folder, About.read(folder).files)
        return Version(folder), left


def check_index(path: Path) -> None:
    """Open an index as searches do, and read all files of its current version.

    Raises FileNotFoundError without one, sqlite3.Error and ValueError where it is damaged, OSError.
    """
    reader = IndexReader(path)
    try:
        reader.check_sums()
    finally:
        reader.close()
