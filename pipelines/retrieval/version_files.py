"""The files of the versions that a reader opens, checked by their sums: at once, or meanwhile in a thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pipelines.retrieval.file_sums import FileSum, Stopped, check_sum

log = logging.getLogger("braid.retrieval")

CHECKED_FIRST = 512 << 20
"""Bytes of files that are read before a version is searched, about a second; others are read meanwhile."""


class VersionFiles:
    """Versions share files, and each is read once.

    A file that was changed since, which its time of change says, is another one.  Any thread may use it.
    """

    def __init__(self) -> None:
        self._checked: set[tuple[int, int, int, FileSum]] = set()
        self._lock = threading.Lock()

    def check(self, folder: Path, files: Mapping[str, FileSum]) -> Sequence[Path]:
        """Read the files of a version that were not read yet, small ones first; those for which there is no
        time now are left for `RestCheck`.  Raises ValueError where one is damaged, and OSError.
        """
        keys = {name: _key(folder / name, wanted) for name, wanted in files.items()}
        with self._lock:
            self._checked &= {*keys.values()}
            left = [name for name, key in keys.items() if key not in self._checked]
        left.sort(key=lambda name: files[name].size)
        num_bytes = 0
        for number, name in enumerate(left):
            num_bytes += files[name].size
            if num_bytes > CHECKED_FIRST:
                return [folder / name for name in left[number:]]
            self.read(folder / name, files[name])
        return ()

    def read(self, path: Path, wanted: FileSum, is_wanted: Callable[[], bool] = lambda: True) -> None:
        """Read one file.  Raises as `check_sum`."""
        key = _key(path, wanted)
        check_sum(path, wanted, is_wanted)
        with self._lock:
            self._checked.add(key)


class RestCheck:
    """Reads files of a version in a thread while it is searched; `fault` says what is wrong with one."""

    def __init__(self, files: VersionFiles, paths: Sequence[Path], sums: Mapping[str, FileSum]) -> None:
        self.fault = ""
        self._files, self._paths, self._sums = files, paths, sums
        self._is_stopped = False
        if paths:
            threading.Thread(target=self._run, name="index-check", daemon=True).start()

    def stop(self) -> None:
        """End soon: the version is closed."""
        self._is_stopped = True

    def _run(self) -> None:
        for path in self._paths:
            try:
                self._files.read(path, self._sums[path.name], lambda: not self._is_stopped)
            except (Stopped, FileNotFoundError):  # a later version is there
                return
            except (OSError, ValueError) as error:
                self.fault = str(error)
                log.error("the index is not searched any more: %s", error)
                return


def _key(path: Path, wanted: FileSum) -> tuple[int, int, int, FileSum]:
    stat = path.stat()
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns, wanted
