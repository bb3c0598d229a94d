"""The loader thread: looks at the model repository, and loads folders on request, one at a time.

Puts what it found and made into the host's inbox; never touches the instances that serve, nor any engine.
"""

from __future__ import annotations

import gc
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import psutil

from graphs.compose import GraphSource
from graphs.errors import GraphError
from pipelines.base.errors import BraidError, EngineError, InvalidConfig, RequestError
from pipelines.base.garbage_collection import release_free_pages
from pipelines.host.adapters.adapter_discovery import AdapterFinder, AdapterFit
from pipelines.host.models.load_events import (
    Event,
    Loaded,
    LoadFailed,
    Progressed,
    Removed,
    Restored,
    Scanned,
)
from pipelines.host.models.model import HostModel, build_for_host
from pipelines.host.models.model_terms import taken_bytes, terms_of
from pipelines.host.models.residents import Terms
from pipelines.loading.load import BuildError, Sources, source_text
from pipelines.repository import model_folders
from pipelines.repository.model_folders import ModelFolder
from pipelines.repository.snapshot import Snapshot
from pipelines.repository.snapshots import Snapshots
from pipelines.wire.messages import GraphText

log = logging.getLogger("braid.host")

Scan = Callable[[Path], Sequence[ModelFolder]]
Build = Callable[[ModelFolder, Mapping[str, GraphSource]], HostModel]
"""A folder and the graphs of all models (graphs may name each other) → the model, or an exception."""


@dataclass(frozen=True)
class ModelSource:
    """The source of a host's models: a model repository, and how its folders are found and loaded.

    `poll_s`: look at the repository this often without being asked.
    """

    folder: Path
    scan: Scan = model_folders.scan
    build: Build = build_for_host
    poll_s: float | None = None
    adapters: AdapterFinder = field(default_factory=AdapterFinder)


@dataclass
class _Known:
    """What the loader knows of a name: the folder that was reported last, what was seen and loaded last.

    `failed`: the folder could not be loaded.  `fit` is what adapters of the loaded model must fit.
    """

    folder: ModelFolder
    seen: ModelFolder
    loaded: ModelFolder | None = None
    graph: GraphText | None = None
    failed: bool = False
    fit: AdapterFit | None = None


class Loader:
    """One daemon thread.  `_known` has an entry for every name of the last scan."""

    def __init__(self, source: ModelSource, notify: Callable[[Event], None], snapshots: Snapshots) -> None:
        self._repository = source.folder
        self._scan = source.scan
        self._build = source.build
        self._poll_s = source.poll_s
        self._adapters = source.adapters
        self._notify = notify
        self._snapshots = snapshots
        self._known: dict[str, _Known] = {}
        self._last_look: dict[str, str] = {}  # of a poll: name → version and fingerprint
        self._num_asked = self._num_scans = 0
        self._scan_error: BraidError | None = None
        self._commands: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="loader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def rescan(self) -> int:
        """Look at the repository (again); the number of the Scanned that follows, or of a later one.

        Safe in a signal handler; returns immediately.
        """
        self._num_asked += 1
        self._commands.put(self._look)
        return self._num_asked

    def load(self, folder: ModelFolder) -> None:
        """Load a folder that was found.  Dropped where a later scan finds another state of it before."""
        self._commands.put(partial(self._load, folder, False))

    def free_memory(self) -> None:
        """Return to the system what closed models have left."""
        self._commands.put(free_memory)

    def stop(self, timeout_s: float) -> None:
        """No further scan; waits for the load in progress, at most `timeout_s`."""
        self._commands.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            try:
                command = self._commands.get(timeout=self._poll_s)
            except queue.Empty:
                command = self._poll
            if command is None:
                return
            command()

    def _look(self) -> None:
        """A scan that was asked for: what failed is tried again."""
        self._num_scans += 1
        found = self._found(self._is_stale)
        self._look_for_adapters()
        self._notify(Scanned(self._num_scans, found, self._scan_error))

    def _poll(self) -> None:
        """Only what two looks find equal is taken: a folder that is being written changes between them."""
        seen, self._last_look = self._last_look, {}
        found = self._found(lambda folder: self._has_settled(folder, seen) and self._has_changed(folder))
        self._look_for_adapters()
        if found:
            self._notify(Scanned(self._num_scans, found))

    def _look_for_adapters(self) -> None:
        """Report the adapters of all models."""
        fits = {name: known.fit for name, known in self._known.items() if known.fit is not None}
        try:
            for found in self._adapters.look([known.folder for known in self._known.values()], fits):
                self._notify(found)
        except Exception:
            log.exception("cannot look for adapters")

    def _has_settled(self, folder: ModelFolder, seen: Mapping[str, str]) -> bool:
        state = self._last_look[folder.name] = f"{folder.version} {folder.fingerprint}"
        return seen.get(folder.name) == state

    def _found(self, is_due: Callable[[ModelFolder], bool]) -> list[tuple[ModelFolder, Terms]]:
        self._scan_error = None
        try:
            folders = {folder.name: folder for folder in self._scan(self._repository)}
            for name in self._known.keys() - folders.keys():
                self._missing(name)
            due = [folder for folder in folders.values() if is_due(folder)]
            return [(self._note(folder), _terms(folder)) for folder in due]
        except (OSError, ValueError) as error:
            log.error("cannot scan the model repository: %s", error)
            self._scan_error = _unreadable(error)
        except Exception as error:
            log.exception("cannot scan the model repository %s", self._repository)
            self._scan_error = EngineError(f"the model repository cannot be read: {type(error).__name__}")
        return []

    def _note(self, folder: ModelFolder) -> ModelFolder:
        known = self._known.setdefault(folder.name, _Known(folder, folder))
        known.folder, known.seen, known.failed = folder, folder, False
        return folder

    def _is_stale(self, folder: ModelFolder) -> bool:
        """Whether a scan that was asked for reports a folder."""
        known = self._known.get(folder.name)
        return self._has_changed(folder) or (known is not None and known.failed)

    def _has_changed(self, folder: ModelFolder) -> bool:
        """Whether a folder is not as the host knows it; one that is as it was loaded again has no problem."""
        known = self._known.get(folder.name)
        if known is None:
            return True
        if known.loaded is None or not _same(known.loaded, folder):
            return not _same(known.seen, folder)
        known.seen = known.loaded
        if known.failed:
            known.failed = False
            self._notify(Restored(folder.name))
        return False

    def _missing(self, name: str) -> None:
        """A model that serves is removed with its folder, not by files that are missing in it."""
        known = self._known[name]
        if known.graph is None or not known.folder.is_incomplete:
            del self._known[name]
            self._notify(Removed(name))
        elif not known.failed:
            known.failed = True
            self._notify(LoadFailed(known.folder, [f"{known.folder.home} holds no model any more"]))

    def _load(self, folder: ModelFolder, is_last_try: bool) -> None:
        """Load a folder and report the result; a graph that may name one that is loaded after it is tried
        once more, behind that one.
        """
        start_s, known = time.monotonic(), self._known.get(folder.name)
        if known is None or known.folder is not folder:
            return
        try:
            with self._watched(folder.name):
                folder = folder.refreshed()
                opened = folder.opened()
                opened = replace(opened, graph=opened.graph_text())
                sources = self._sources(opened)
                text = source_text(sources[opened.name])
                memory = psutil.Process().memory_info().rss
                model, snapshot = self._loaded(folder, opened, sources)
        except BaseException as error:  # a lost device, a panic of a library: no fault ends this thread
            if isinstance(error.__cause__, GraphError) and not is_last_try:
                self._commands.put(partial(self._load, known.folder, True))
                return
            known.failed = True
            self._notify(LoadFailed(folder, _problems(error)))
            return
        release_free_pages()
        growth = psutil.Process().memory_info().rss - memory
        known.seen = known.loaded = folder
        known.graph, known.failed, known.fit = text, False, model.adapter_fit
        self._look_for_adapters()
        num_bytes = taken_bytes(folder, model.cache_bytes, growth)
        seconds = time.monotonic() - start_s
        self._notify(Loaded(folder, model, snapshot, sources.texts, seconds, num_bytes))

    @contextmanager
    def _watched(self, name: str) -> Iterator[None]:
        """Show the progress of a model's load, and report it to the host."""
        from pipelines.base.load_progress import watched
        from pipelines.host.models.load_display import LoadDisplay

        display = LoadDisplay(name)

        def show(what: str, share: float) -> None:
            display.show(what, share)
            self._notify(Progressed(name, _sendable(what), round(share, 3)))

        try:
            with watched(show):
                yield
        finally:
            display.end()

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

    def _sources(self, folder: ModelFolder) -> Sources:
        """The folder's own graph, the graphs that were loaded, and those of folders that never were."""
        loaded = {name: known.graph for name, known in self._known.items() if known.graph is not None}
        loaded.pop(folder.name, None)
        return Sources([*(known.folder for known in self._known.values()), folder], loaded)


def _terms(folder: ModelFolder) -> Terms:
    """What a folder asks for; one that cannot be read asks for nothing, and its load says why."""
    try:
        return terms_of(folder)
    except Exception:
        log.exception("cannot read what %s asks for", folder.name)
        return Terms()


def _unreadable(error: OSError | ValueError) -> BraidError:
    """In the words and with the status of OpenVINO Model Server, and with the place."""
    if isinstance(error, OSError):
        return RequestError(f"Config file not found or cannot open. {error}")
    return InvalidConfig(f"Reloading config file failed. {error}")


def _same(one: ModelFolder, other: ModelFolder) -> bool:
    return (one.version, one.fingerprint) == (other.version, other.fingerprint)


def free_memory() -> None:
    """Collect the garbage of closed models, also what is frozen, and give free pages back."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    release_free_pages()


def _problems(error: BaseException) -> list[str]:
    """The problems of a graph that does not check; anything else is unforeseen and logged whole."""
    problems = getattr(error, "problems", None)
    if problems:
        return [_sendable(str(problem)) for problem in problems]
    if isinstance(error, (OSError, UnicodeDecodeError)):
        return [_sendable(f"not readable: {error}")]
    log.error("a model did not load", exc_info=error)
    return [_sendable(f"{type(error).__name__}: {error}")]


def _sendable(problem: str) -> str:
    """A text that may hold the name of a file that is not UTF-8, with such bytes escaped."""
    return problem.encode("utf-8", "backslashreplace").decode()
