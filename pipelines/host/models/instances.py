"""The model instances of a host: which one new calls use, and when one may be closed.

A model instance is one model folder loaded once.  Belongs to the thread that holds the turn; opens no file.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from msgspec.structs import replace

from pipelines.base.errors import ModelNotFound, Unavailable
from pipelines.host.adapters.adapter_cache import AdapterPlaces
from pipelines.host.models.model import HostModel
from pipelines.inference.contracts.tensor_contract import TensorPort
from pipelines.repository.model_folders import ModelFolder
from pipelines.repository.snapshot import Snapshot
from pipelines.wire.listener import Peer
from pipelines.wire.messages import GraphText, ModelState, ModelStatus, TensorSpec

log = logging.getLogger("braid.host")

LINGER_S = 5.0
"""A replaced instance takes calls for at least this long: workers may not have its successor yet."""


@dataclass(eq=False)
class ModelInstance:
    """A loaded model.  It is closed when it is retired, no call runs in it and no worker calls it.

    `graphs` holds the texts of its graph and of all that it names; `num_bytes` is what it takes.
    `may_close_at_s` is None while new calls use it.  `adapters` are those of the engine nodes that take some.
    """

    instance_id: int
    folder: ModelFolder
    model: HostModel
    snapshot: Snapshot
    graphs: Mapping[str, GraphText]
    num_bytes: int = 0
    num_calls: int = 0
    used_at_s: float = 0.0
    may_close_at_s: float | None = None
    adapters: dict[str, AdapterPlaces] = field(default_factory=dict)

    def close(self) -> None:
        self.model.close()
        self.snapshot.remove()


class ModelInstances:
    """All instances by id, the one that new calls use per name, and what went wrong per name.

    Invariant: `_current` ⊆ `_held`; an instance of `_held` that is not current was replaced or removed, or is
    to be unloaded.
    """

    def __init__(self, linger_s: float = LINGER_S) -> None:
        self._linger_s = linger_s
        self._held: dict[int, ModelInstance] = {}
        self._current: dict[str, int] = {}
        self._loading: dict[str, ModelFolder] = {}
        self._progress: dict[str, tuple[str, float]] = {}  # of loads: the task, and the share done
        self._unloaded: dict[str, ModelStatus] = {}
        self._on_request: set[str] = set()  # names that requests may wait for while they are not ready
        self._failed: dict[str, tuple[ModelFolder, list[str]]] = {}
        self._in_use: dict[Peer, frozenset[int]] = {}
        self._ids = count(time.time_ns() // 1_000_000)  # higher than every id of an earlier host

    def __iter__(self) -> Iterator[ModelInstance]:
        return iter(list(self._held.values()))

    def loading(self, folder: ModelFolder, on_request: bool = False) -> None:
        """The folder is being loaded; the instance that its name has serves on."""
        self._loading[folder.name] = folder
        self._may_wait(folder.name, on_request)

    def progressed(self, name: str, what: str, share: float) -> None:
        """Note the current task of a model's load and how much of it is done; a finished one is dropped,
        since the progress of what follows is not known.
        """
        if share >= 1:
            self._progress.pop(name, None)
        elif name in self._loading:
            self._progress[name] = what, share

    def unloaded(self, folder: ModelFolder, task: str, on_request: bool) -> None:
        """The folder is not loaded, and none of its instances is called by new requests."""
        name = folder.name
        self._clear(name)
        self._may_wait(name, on_request)
        known = self._unloaded.get(name)
        if known is None or known.version != folder.version:
            self._unloaded[name] = ModelStatus(name, folder.version, 0, "unloaded", task=task)

    def retire(self, name: str, on_request: bool) -> None:
        """New calls no longer use the current instance; it is closed when no request has it any more."""
        instance_id = self._current.pop(name)
        instance = self._held[instance_id]
        instance.may_close_at_s = time.monotonic()
        self._failed.pop(name, None)
        last = _ready(instance, [], [])
        self._unloaded[name] = replace(
            last, state="unloaded", instance_id=0, graphs={}, snapshot="", fingerprint=""
        )
        self._may_wait(name, on_request)

    def restore(self, name: str) -> None:
        """New calls use the instance again that was retired last."""
        instance = max((one for one in self if one.folder.name == name), key=lambda one: one.instance_id)
        instance.may_close_at_s = None
        self._current[name] = instance.instance_id
        self._unloaded.pop(name, None)

    def holds(self, name: str) -> bool:
        """Whether an instance of the name is in memory."""
        return any(one.folder.name == name for one in self)

    def busy(self, name: str) -> bool:
        """Whether calls run in an instance of the name."""
        return any(one.num_calls for one in self if one.folder.name == name)

    def reset_prefix_caches(self) -> None:
        """No later prompt of any instance reuses what is cached now."""
        for instance in self:
            for engine in instance.model.stepped.values():
                engine.reset_prefix_cache()

    def used_at_s(self, name: str) -> float:
        """When a call of the name began or ended last."""
        return max((one.used_at_s for one in self if one.folder.name == name), default=0.0)

    def loaded(
        self,
        folder: ModelFolder,
        model: HostModel,
        snapshot: Snapshot,
        graphs: Mapping[str, GraphText],
        num_bytes: int = 0,
    ) -> ModelInstance:
        """From now on new calls of the name use `model`."""
        self._clear(folder.name)
        self._replace(folder.name)
        self._unloaded.pop(folder.name, None)
        instance = ModelInstance(next(self._ids), folder, model, snapshot, graphs, num_bytes)
        for node, setting in model.adapters.items():
            instance.adapters[node] = AdapterPlaces(setting.max_loaded, setting.max_rank)
        self._held[instance.instance_id] = instance
        self._current[folder.name] = instance.instance_id
        return instance

    def failed(self, folder: ModelFolder, problems: list[str]) -> None:
        """The folder could not be loaded; the instance that its name has serves on."""
        self._clear(folder.name)
        self._unloaded.pop(folder.name, None)
        self._failed[folder.name] = (folder, problems)
        self._on_request.add(folder.name)

    def restored(self, name: str) -> None:
        """The folder is again what its instance was loaded from: no problem is left."""
        self._clear(name)

    def removed(self, name: str) -> None:
        """The name is gone from the repository; calls in flight end where they are."""
        self._clear(name)
        self._replace(name)
        self._unloaded.pop(name, None)
        self._on_request.discard(name)

    def in_use(self, peer: Peer, instance_ids: Iterable[int]) -> None:
        """The worker behind `peer` calls these instances, and no others."""
        self._in_use[peer] = frozenset(instance_ids)

    def disconnected(self, peer: Peer) -> None:
        """The worker behind `peer` is gone and calls none."""
        self._in_use.pop(peer, None)

    def find(self, name: str, instance_id: int) -> ModelInstance:
        """The instance that a call names.

        Raises NotFound, or Unavailable when the name has only other instances.
        """
        instance = self._held.get(instance_id)
        if instance is not None and instance.folder.name == name:
            return instance
        if name in self._current:
            raise Unavailable(
                f"The model `{name}` was just reloaded; send the request again.", retry_after_s=1
            )
        if name in self._loading:
            raise Unavailable(f"The model `{name}` is still loading.")
        if name in self._unloaded:
            raise Unavailable(
                f"The model `{name}` was just unloaded; send the request again.", retry_after_s=1
            )
        raise ModelNotFound(f"The model `{name}` does not exist.", field="model")

    def current(self, name: str) -> ModelInstance | None:
        """The instance that new calls of a name use."""
        return self._held.get(self._current.get(name, 0))

    def has(self, instance: ModelInstance) -> bool:
        """Whether an instance is not closed."""
        return self._held.get(instance.instance_id) is instance

    def close_idle(self) -> list[ModelInstance]:
        """Close every retired instance that is not called any more, and give them back."""
        if len(self._held) == len(self._current):
            return []
        now_s = time.monotonic()
        idle = [instance for instance in self if self._may_close(instance, now_s)]
        for instance in idle:
            del self._held[instance.instance_id]
            instance.close()
            log.info("unloaded %s version %s", instance.folder.name, instance.folder.version)
        return idle

    def close_all(self) -> None:
        """Close everything; only the host's end calls this."""
        for instance in self:
            instance.close()
        self._held.clear()
        self._current.clear()

    def statuses(self) -> list[ModelStatus]:
        """One entry per name, in order of names."""
        names = {*self._current, *self._loading, *self._failed, *self._unloaded}
        names.update(instance.folder.name for instance in self)
        return [self._status(name) for name in sorted(names)]

    def _status(self, name: str) -> ModelStatus:
        folder, problems = self._failed.get(name, (None, []))
        if name in self._current:
            return _ready(self._held[self._current[name]], problems, self._replaced(name))
        on_request = name in self._on_request
        if name in self._loading:
            loading = _entry(self._loading[name], "loading", problems, on_request)
            what, share = self._progress.get(name, ("", None))
            return replace(loading, doing=what, share=share)
        if folder is not None:
            return _entry(folder, "failed", problems, on_request)
        if name in self._unloaded:
            state: ModelState = "unloading" if self.holds(name) else "unloaded"
            return replace(self._unloaded[name], state=state, on_request=on_request)
        return _entry(
            next(instance.folder for instance in self if instance.folder.name == name), "unloading", []
        )

    def _replaced(self, name: str) -> list[int]:
        """Instances of a name that still take calls, without the current one."""
        current = self._current.get(name)
        return [key for key, held in self._held.items() if held.folder.name == name and key != current]

    def _may_close(self, instance: ModelInstance, now_s: float) -> bool:
        may_close_at_s = instance.may_close_at_s
        if may_close_at_s is None or instance.num_calls or now_s < may_close_at_s:
            return False
        return not any(instance.instance_id in ids for ids in self._in_use.values())

    def _replace(self, name: str) -> None:
        instance_id = self._current.pop(name, None)
        if instance_id is not None:
            self._held[instance_id].may_close_at_s = time.monotonic() + self._linger_s

    def _may_wait(self, name: str, on_request: bool) -> None:
        (self._on_request.add if on_request else self._on_request.discard)(name)

    def _clear(self, name: str) -> None:
        self._loading.pop(name, None)
        self._progress.pop(name, None)
        self._failed.pop(name, None)


def _entry(
    folder: ModelFolder, state: ModelState, problems: list[str], on_request: bool = False
) -> ModelStatus:
    return ModelStatus(folder.name, folder.version, 0, state, problems, on_request=on_request)


def _ready(instance: ModelInstance, problems: list[str], replaced: list[int]) -> ModelStatus:
    folder, model, snapshot = instance.folder, instance.model, instance.snapshot
    return ModelStatus(
        folder.name,
        folder.version,
        instance.instance_id,
        "ready",
        problems,
        task=model.task,
        graphs=dict(instance.graphs),
        snapshot=str(snapshot.path),
        fingerprint=snapshot.fingerprint,
        replaced=replaced,
        max_context=model.max_context or None,
        cache_tokens=model.cache_tokens,
        inputs=[_spec(port) for port in model.inputs],
        outputs=[_spec(port) for port in model.outputs],
    )


def _spec(port: TensorPort) -> TensorSpec:
    return TensorSpec(port.name, port.dtype, None if port.shape is None else list(port.shape))
