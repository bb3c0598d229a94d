"""The loader thread: scans the model repository and loads what is new or changed, one model at a time.

Puts what it made into the host's inbox; never touches the instances that serve, nor any engine.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from graphs.compose import GraphSource
from graphs.errors import GraphError
from pipelines.host.backends.device_errors import DeviceLost
from pipelines.host.model import HostModel
from pipelines.host.snapshots import Snapshots
from pipelines.loading import BuildError, Sources
from pipelines.repository.model_folders import ModelFolder
from pipelines.repository.snapshot import Snapshot

log = logging.getLogger("braid.host")

Scan = Callable[[Path], Sequence[ModelFolder]]
Build = Callable[[ModelFolder, Mapping[str, GraphSource]], HostModel]
"""A folder and the graphs of all models (graphs may name each other) → the model, or an exception."""


@dataclass(frozen=True)
class LoadStarted:
    """A folder is about to be loaded."""

    folder: ModelFolder


@dataclass(frozen=True)
class Loaded:
    """A folder was loaded.  The reader of this event owns `model` and `snapshot`.

    `graphs` holds the texts of its graph and of all that it names, as they were checked.
    """

    folder: ModelFolder
    model: HostModel
    snapshot: Snapshot
    graphs: Mapping[str, str]
    seconds: float


@dataclass(frozen=True)
class LoadFailed:
    """A folder could not be loaded; `problems` are written for the author of the folder."""

    folder: ModelFolder
    problems: list[str]


@dataclass(frozen=True)
class Restored:
    """A folder that could not be loaded is again what was loaded before."""

    name: str


@dataclass(frozen=True)
class Removed:
    """A name is no longer in the repository."""

    name: str


@dataclass(frozen=True)
class Scanned:
    """Everything the scan found was loaded, failed or was unchanged."""


Event = LoadStarted | Loaded | LoadFailed | Restored | Removed | Scanned


@dataclass
class _Known:
    """What the loader knows of a name: the folder and the graph that were loaded last, and whether a later
    one failed.
    """

    folder: ModelFolder
    graph: str | None = None
    failed: bool = False


class Loader:
    """One daemon thread.  `_known` has an entry for every name of the last scan."""

    def __init__(
        self,
        repository: Path,
        scan: Scan,
        build: Build,
        notify: Callable[[Event], None],
        snapshots: Snapshots,
    ) -> None:
        self._repository = repository
        self._scan = scan
        self._build = build
        self._notify = notify
        self._snapshots = snapshots
        self._known: dict[str, _Known] = {}
        self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="loader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def rescan(self) -> None:
        """Look at the repository (again).  Safe in a signal handler; returns immediately."""
        self._requests.put(True)

    def stop(self, timeout_s: float) -> None:
        """No further scan; waits for the load in progress, at most `timeout_s`."""
        self._requests.put(False)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while self._requests.get():
            try:
                self._bring_up_to_date()
            except OSError as error:
                log.error("cannot scan the model repository: %s", error)
            except Exception:
                log.exception("cannot scan the model repository %s", self._repository)
            self._notify(Scanned())

    def _bring_up_to_date(self) -> None:
        found = {folder.name: folder for folder in self._scan(self._repository)}
        for name in self._known.keys() - found.keys():
            self._missing(name)
        stale = [folder for folder in found.values() if self._is_stale(folder)]
        for folder in stale:
            self._notify(LoadStarted(folder))
        folders = list(found.values())
        undecided = [folder for folder in stale if not self._load(folder, folders, is_last_try=False)]
        for folder in undecided:  # a graph may name one that was loaded after it
            self._load(folder, folders, is_last_try=True)

    def _is_stale(self, folder: ModelFolder) -> bool:
        known = self._known.get(folder.name)
        if known is None or known.graph is None or known.folder.version != folder.version:
            return True
        if known.folder.fingerprint != folder.fingerprint:
            return True
        if known.failed:
            known.failed = False
            self._notify(Restored(folder.name))
        return False

    def _missing(self, name: str) -> None:
        """A model that serves is removed with its folder, not by files that are missing in it."""
        known = self._known[name]
        if known.graph is not None and known.folder.is_incomplete:
            known.failed = True
            self._notify(LoadFailed(known.folder, [f"{known.folder.home} holds no model any more"]))
        else:
            del self._known[name]
            self._notify(Removed(name))

    def _load(self, folder: ModelFolder, folders: Sequence[ModelFolder], is_last_try: bool) -> bool:
        """Load a folder and report the result; False, and no report, for a graph that is tried again."""
        start_s = time.monotonic()
        known = self._known.setdefault(folder.name, _Known(folder))
        try:
            folder = folder.refreshed()
            opened = folder.opened()
            opened = replace(opened, graph=opened.graph_text())
            sources = self._sources(opened, folders)
            model, snapshot = self._loaded(folder, opened, sources)
        except (Exception, DeviceLost) as error:
            if isinstance(error.__cause__, GraphError) and not is_last_try:
                return False
            known.failed = True
            self._notify(LoadFailed(folder, _problems(error)))
            return True
        self._known[folder.name] = _Known(folder, opened.graph)
        self._notify(Loaded(folder, model, snapshot, sources.texts, time.monotonic() - start_s))
        return True

    def _loaded(
        self, folder: ModelFolder, opened: ModelFolder, sources: Sources
    ) -> tuple[HostModel, Snapshot]:
        """Raises BuildError where the folder changes meanwhile, and what loading a model raises."""
        snapshot = self._snapshots.take(opened)
        try:
            model = self._build(opened, sources)
            if folder.refreshed().fingerprint != folder.fingerprint:
                model.close()
                raise BuildError([f"{folder.path} changed while it was loaded; reload when it is complete"])
        except BaseException:
            snapshot.remove()
            raise
        return model, snapshot

    def _sources(self, folder: ModelFolder, folders: Sequence[ModelFolder]) -> Sources:
        """The folder's own graph, the graphs that were loaded, and those of folders that never were."""
        loaded = {name: known.graph for name, known in self._known.items() if known.graph is not None}
        loaded.pop(folder.name, None)
        return Sources([*folders, folder], loaded)


def _problems(error: BaseException) -> list[str]:
    """The problems of a graph that does not check; anything else is unforeseen and logged whole."""
    problems = getattr(error, "problems", None)
    if problems:
        return [str(problem) for problem in problems]
    if isinstance(error, (OSError, UnicodeDecodeError)):
        return [f"not readable: {error}"]
    log.error("a model did not load", exc_info=error)
    return [f"{type(error).__name__}: {error}"]
