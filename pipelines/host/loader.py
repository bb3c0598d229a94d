"""The loader thread: scans the model repository and builds what is new or changed, one model at a time.

Hands what it made to the host's inbox; never touches the loads that serve, nor any engine.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.host.backends.device_errors import DeviceLost
from pipelines.host.instances import HostModel, ModelFolder

log = logging.getLogger("braid.host")

Scan = Callable[[Path], Sequence[ModelFolder]]
Build = Callable[[Any, Sequence[Any]], HostModel]
"""A folder and all folders of its scan (graphs may name each other) → the model, or an exception."""


@dataclass(frozen=True)
class Loading:
    """A folder is about to be built."""

    folder: ModelFolder


@dataclass(frozen=True)
class Loaded:
    """A folder was built.  Who reads this owns `model`."""

    folder: ModelFolder
    model: HostModel
    seconds: float


@dataclass(frozen=True)
class LoadFailed:
    """A folder could not be built; `problems` are written for the person who wrote it."""

    folder: ModelFolder
    problems: list[str]


@dataclass(frozen=True)
class Removed:
    """A name is no longer in the repository."""

    name: str


@dataclass(frozen=True)
class Scanned:
    """Everything the scan found was built, failed or was unchanged."""


Event = Loading | Loaded | LoadFailed | Removed | Scanned


class Loader:
    """One daemon thread.  `_built` holds the fingerprint of each name's newest successful load."""

    def __init__(self, folder: Path, scan: Scan, build: Build, tell: Callable[[Event], None]) -> None:
        self._folder = folder
        self._scan = scan
        self._build = build
        self._tell = tell
        self._built: dict[str, tuple[int, object]] = {}
        self._wishes: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="loader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def rescan(self) -> None:
        """Look at the repository (again).  Safe in a signal handler; returns at once."""
        self._wishes.put(True)

    def stop(self, timeout_s: float) -> None:
        """No further scan; waits for the build in progress, at most `timeout_s`."""
        self._wishes.put(False)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while self._wishes.get():
            try:
                self._bring_up_to_date()
            except OSError as error:
                log.error("cannot scan the model repository: %s", error)
            except Exception:
                log.exception("cannot scan the model repository %s", self._folder)
            self._tell(Scanned())

    def _bring_up_to_date(self) -> None:
        folders = self._scan(self._folder)
        found = {folder.name: folder for folder in folders}
        for name in self._built.keys() - found.keys():
            del self._built[name]
            self._tell(Removed(name))
        stale = [f for f in found.values() if self._built.get(f.name) != (f.version, f.fingerprint)]
        for folder in stale:
            self._tell(Loading(folder))
        for folder in stale:
            self._load(folder, folders)

    def _load(self, folder: ModelFolder, folders: Sequence[ModelFolder]) -> None:
        start_s = time.monotonic()
        try:
            model = self._build(folder, folders)
        except (Exception, DeviceLost) as error:
            self._tell(LoadFailed(folder, _problems(error)))
        else:
            self._built[folder.name] = (folder.version, folder.fingerprint)
            self._tell(Loaded(folder, model, time.monotonic() - start_s))


def _problems(error: BaseException) -> list[str]:
    """The problems of a graph that does not check; anything else is unforeseen and logged whole."""
    problems = getattr(error, "problems", None)
    if problems:
        return [str(problem) for problem in problems]
    log.error("a model did not load", exc_info=error)
    return [f"{type(error).__name__}: {error}"]
