"""Models come and go: does what the residency policy decides, with the loader and the instances of a host."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any

from pipelines.base.errors import BraidError, Unavailable
from pipelines.base.garbage_collection import freeze_objects
from pipelines.host.lifecycle.followers import Followers
from pipelines.host.lifecycle.residency import Residency
from pipelines.host.lifecycle.residency_decisions import (
    AnswerClient,
    Decision,
    FailModel,
    LoadModel,
    RestoreModel,
    RetireModel,
)
from pipelines.host.models import load_events
from pipelines.host.models.instances import ModelInstances
from pipelines.host.models.loader import Loader
from pipelines.host.models.model import HostModel
from pipelines.host.models.residents import MemoryLimits, Terms
from pipelines.inference.backends.host_memory import limit_default_caches
from pipelines.repository.files.report import notes_of
from pipelines.repository.model_folders import ModelFolder
from pipelines.telemetry import metrics
from pipelines.wire.listener import Listener, Peer
from pipelines.wire.messages import (
    KeepModel,
    ModelSettled,
    ReleaseModel,
    Rescan,
    UnloadModel,
    WantModel,
)

log = logging.getLogger("braid.host")

Key = tuple[Peer, int]
PLAN_S = 0.25
"""The seconds between two looks at whether time alone is the cause of a plan."""
WAITING_PLAN_S = 0.02
"""The time between two looks while a client waits: the end of a call may be what it waits for."""
DEFAULT_CACHE_SHARE = 0.25
"""Part of the bound that a cache has at most when its graph has no `memory_gb`."""


@dataclass
class _AskedScan:
    """A client that waits for a scan: its number, and what was loaded, removed or failed before it."""

    number: int
    num_changes: int
    num_failures: int


class Lifecycle:
    """Belongs to the host's main thread.  `is_settled`: all that scans found is loaded, failed, or left to
    requests.
    """

    def __init__(
        self,
        instances: ModelInstances,
        load: Loader,
        listener: Listener,
        limits: MemoryLimits,
        changed: Callable[[], None],
        num_statuses: Callable[[], int],
        ready: Callable[[HostModel], None],
    ) -> None:
        """`changed` is called when the status of a model did, `ready` with every model that was loaded.

        `num_statuses` gives the number of the last status that was sent to workers.
        """
        self._instances = instances
        self._loader = load
        self._listener = listener
        self._changed = changed
        self._num_statuses = num_statuses
        self._ready = ready
        self._followers = Followers()
        self._policy = Residency(limits, instances.busy, instances.used_at_s, monotonic)
        self._memory, self._clients = self._policy.memory, self._policy.clients
        self._folders: dict[str, ModelFolder] = {}
        self._terms: dict[str, Terms] = {}
        self._scans: dict[Key, _AskedScan] = {}
        self._num_scans = self._num_changes = 0
        self._failures: list[str] = []
        self._scan_error: BraidError | None = None
        self._is_due, self._looked_at_s = False, 0.0
        if limits.max_bytes is not None:
            limit_default_caches(int(limits.max_bytes * DEFAULT_CACHE_SHARE))
        self.readers: dict[type, Callable[[Peer, Any], None]] = {
            WantModel: self._want,
            ReleaseModel: self._release,
            UnloadModel: self._unload,
            Rescan: self._rescan,
            KeepModel: self._keep,
            load_events.Scanned: self._scanned,
            load_events.Loaded: self._loaded,
            load_events.LoadFailed: self._load_failed,
            load_events.Progressed: self._progressed,
            load_events.Restored: self._restored,
            load_events.Removed: self._removed,
        }

    @property
    def is_settled(self) -> bool:
        return self._num_scans > 0 and not self._memory.is_loading

    def gone(self, peer: Peer) -> None:
        """The worker died or disconnected: it waits for nothing and holds nothing."""
        for key in [key for key in self._clients.keys if isinstance(key, tuple) and key[0] is peer]:
            self._clients.withdraw(key)
        for scan in [key for key in self._scans if key[0] is peer]:
            del self._scans[scan]
        self._followers.gone(peer)
        self._is_due = True

    def followed(self, peer: Peer, status: int) -> None:
        """A worker has built all that can be built for a status."""
        self._followers.followed(peer, status)

    def settle(self, key: Key, error: BraidError | None = None) -> None:
        """Answer a client: with an error at once, else when every worker has followed the last status."""
        send = partial(self._send, key, error)
        if error is None:
            self._followers.when_at(self._num_statuses(), send)
        else:
            send()

    def adapters_changed(self) -> None:
        """A look found other adapters than before."""
        self._num_changes += 1
        self._changed()

    def turn(self) -> None:
        """Close what may be closed, and do what is due."""
        closed = self._instances.close_idle()
        for instance in closed:
            name = instance.folder.name
            was_last = not self._instances.holds(name)
            self._memory.closed(name, instance.num_bytes, was_last)
            if was_last:
                metrics.model_gone(name)
        if closed:
            self._loader.free_memory()
            self._changed()
        if closed or self._is_due or self._is_time():
            self._plan()
        self._followers.turn()

    def _is_time(self) -> bool:
        """Asked between any two steps, so what the policy knows is looked at only so often."""
        since_s = monotonic() - self._looked_at_s
        if since_s < WAITING_PLAN_S:
            return False
        if self._clients.is_waited_for:
            return True
        if since_s < PLAN_S:
            return False
        self._looked_at_s += since_s
        return self._policy.has_timers

    def _plan(self) -> None:
        self._is_due, self._looked_at_s = False, monotonic()
        decisions = self._policy.plan()
        for decision in decisions:
            if not isinstance(decision, AnswerClient):
                self._do(decision)
        if any(not isinstance(decision, AnswerClient) for decision in decisions):
            self._changed()
        for decision in decisions:  # after the status: a worker that is answered knows it
            if isinstance(decision, AnswerClient):
                self._answer(decision)
        self._answer_scans()

    def _do(self, decision: Decision) -> None:
        match decision:
            case LoadModel(name, on_request):
                self._instances.loading(self._folders[name], on_request)
                self._loader.load(self._folders[name])
            case RetireModel(name, reason):
                self._instances.retire(name, not self._memory.is_by_hand(name))
                metrics.model_retired(name, reason)
            case RestoreModel(name):
                self._instances.restore(name)
            case FailModel(name, problem):
                self._failures.append(f"{name}: {problem}")
                self._instances.failed(self._folders[name], [problem])

    def _answer(self, answer: AnswerClient) -> None:
        """A request goes on in the worker that asked; the next request of a client may go to any."""
        send = partial(self._send, answer.key, answer.error)
        if answer.by_hand and answer.error is None:
            self._followers.when_at(self._num_statuses(), send)
        else:
            send()

    def _send(self, key: Any, error: BraidError | None, has_changed: bool = True) -> None:
        peer, request_id = key
        if error is None:
            reply = ModelSettled(request_id, has_changed)
        else:
            reply = ModelSettled(
                request_id,
                has_changed,
                error=error.message,
                error_status=error.status,
                error_field=error.field,
                error_word=error.word,
                retry_after_s=error.retry_after_s,
            )
        self._listener.send([(peer, reply)])

    def _answer_scans(self) -> None:
        if not self._scans:
            self._failures.clear()
        if not self._scans or not self.is_settled:
            return
        for key, asked in list(self._scans.items()):
            if self._num_scans >= asked.number:
                del self._scans[key]
                failures = self._failures[asked.num_failures :]
                error = self._scan_error or (Unavailable("; ".join(failures)) if failures else None)
                send = partial(self._send, key, error, self._num_changes > asked.num_changes)
                self._followers.when_at(self._num_statuses(), send)

    # Messages of workers

    def _want(self, peer: Peer, message: WantModel) -> None:
        self._clients.ask((peer, message.request_id), message.model, message.by_hand)
        self._is_due = True

    def _unload(self, peer: Peer, message: UnloadModel) -> None:
        self._clients.unload((peer, message.request_id), message.model)
        if message.model in self._folders and not self._memory.is_in_memory(message.model):
            self._show_unloaded(message.model)
        self._is_due = True

    def _release(self, peer: Peer, message: ReleaseModel) -> None:
        self._clients.withdraw((peer, message.request_id))
        self._scans.pop((peer, message.request_id), None)
        self._is_due = True

    def _keep(self, peer: Peer, message: KeepModel) -> None:
        self._memory.keep_alive(message.model, message.seconds)

    def _rescan(self, peer: Peer, message: Rescan) -> None:
        number = self._loader.rescan()
        self._scans[peer, message.request_id] = _AskedScan(number, self._num_changes, len(self._failures))

    # Events of the loader

    def _scanned(self, peer: Peer, event: load_events.Scanned) -> None:
        self._num_scans, self._scan_error = event.number, event.error
        for folder, terms in event.found:
            name = folder.name
            self._folders[name], self._terms[name] = folder, terms
            self._memory.found(name, terms)
        self._plan()
        for folder, _ in event.found:
            if not self._memory.is_in_memory(folder.name) and not self._memory.has_failed(folder.name):
                self._show_unloaded(folder.name)
        self._changed()

    def _show_unloaded(self, name: str) -> None:
        on_request = not self._memory.is_by_hand(name)
        self._instances.unloaded(self._folders[name], self._terms[name].task, on_request)
        self._changed()

    def _loaded(self, peer: Peer, event: load_events.Loaded) -> None:
        folder, model = event.folder, event.model
        self._memory.loaded(folder.name, event.num_bytes)
        self._instances.loaded(folder, model, event.snapshot, event.graphs, event.num_bytes)
        sizes = [f"context {model.max_context} tokens"] if model.max_context else []
        if model.cache_tokens:
            sizes.append(f"cache {model.cache_tokens} tokens ({model.cache_bytes} bytes)")
        log.info(
            "loaded %s version %s in %.1f s%s",
            folder.name,
            folder.version,
            event.seconds,
            ": " + ", ".join(sizes) if sizes else "",
        )
        for note in notes_of(event.graphs[folder.name].graph):
            log.info("%s: %s", folder.name, note)
        metrics.model_loaded(folder.name, event.seconds, event.num_bytes)
        self._num_changes += 1
        freeze_objects()
        self._ready(model)
        self._changed()
        self._is_due = True

    def _load_failed(self, peer: Peer, event: load_events.LoadFailed) -> None:
        name = event.folder.name
        self._memory.failed(name, event.problems[0])
        self._instances.failed(event.folder, event.problems)
        for problem in event.problems:
            log.error("%s version %s: %s", name, event.folder.version, problem)
        metrics.model_load_failed(name)
        self._failures += [f"{name}: {problem}" for problem in event.problems]
        self._changed()
        self._is_due = True

    def _progressed(self, peer: Peer, event: load_events.Progressed) -> None:
        self._instances.progressed(event.name, event.what, event.share)
        self._changed()

    def _restored(self, peer: Peer, event: load_events.Restored) -> None:
        self._instances.restored(event.name)
        if not self._memory.is_in_memory(event.name):
            self._show_unloaded(event.name)
        self._changed()

    def _removed(self, peer: Peer, event: load_events.Removed) -> None:
        self._num_changes += 1
        self._memory.gone(event.name)
        self._instances.removed(event.name)
        self._folders.pop(event.name, None)
        self._changed()
        self._is_due = True
