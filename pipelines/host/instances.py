"""Which loads of which models this host holds, and when one may be closed.

A instance is one model folder built once.  Belongs to the host's main thread; starts no thread and opens no
file.  Knows nothing of messages' bytes, workers or what an engine computes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from pipelines.errors import NotFound, Unavailable
from pipelines.wire.messages import ModelState, ModelStatus, TensorSpec

if TYPE_CHECKING:
    from pipelines.host.backends.tensor_contract import TensorPort
    from pipelines.host.engine.loop import Engine
    from pipelines.host.engine.threaded_engine import ThreadedEngine
    from pipelines.host.sampling.guide import GuideMaker
    from pipelines.wire.sampling_params import SamplingParams

log = logging.getLogger("braid.host")

LINGER_S = 5.0
"""A replaced instance takes calls for so long: workers that have not heard of its successor still name it."""


class ModelFolder(Protocol):
    """One version of a model in the repository; a changed `fingerprint` means changed content."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def path(self) -> object: ...

    @property
    def fingerprint(self) -> object: ...


class HostModel(Protocol):
    """A model as the host holds it: its engines by node name, loaded and ready to step."""

    @property
    def engines(self) -> Mapping[str, Engine | ThreadedEngine[Any]]: ...

    @property
    def max_context(self) -> int: ...

    @property
    def cache_tokens(self) -> int: ...

    @property
    def cache_bytes(self) -> int: ...

    @property
    def inputs(self) -> Sequence[TensorPort]: ...

    @property
    def outputs(self) -> Sequence[TensorPort]: ...

    def guide_maker(self, node: str, params: SamplingParams) -> GuideMaker | None: ...

    def warm(self) -> bool: ...

    def close(self) -> None: ...


@dataclass(eq=False)
class ModelInstance:
    """One instance.  `num_calls` calls use it; it is closed when there are none and it was replaced."""

    instance_id: int
    folder: ModelFolder
    model: HostModel
    num_calls: int = 0
    replaced_at_s: float | None = None


class ModelInstances:
    """All loads by number, the one that new calls use per name, and what went wrong per name.

    Invariant: `_current` ⊆ `_held`; a instance of `_held` that is not current was replaced or removed.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, linger_s: float = LINGER_S) -> None:
        self._clock = clock
        self._linger_s = linger_s
        self._held: dict[int, ModelInstance] = {}
        self._current: dict[str, int] = {}
        self._loading: dict[str, ModelFolder] = {}
        self._failed: dict[str, tuple[ModelFolder, list[str]]] = {}
        self._instance_ids = count(time.time_ns() // 1_000_000)  # later than every number of an earlier host

    def __iter__(self) -> Iterator[ModelInstance]:
        return iter(list(self._held.values()))

    def loading(self, folder: ModelFolder) -> None:
        """The folder is being built; what its name served before goes on serving."""
        self._loading[folder.name] = folder

    def loaded(self, folder: ModelFolder, model: HostModel) -> ModelInstance:
        """From now on new calls of the name use `model`."""
        self._settle(folder.name)
        self._replace(folder.name)
        instance = ModelInstance(next(self._instance_ids), folder, model)
        self._held[instance.instance_id] = instance
        self._current[folder.name] = instance.instance_id
        return instance

    def failed(self, folder: ModelFolder, problems: list[str]) -> None:
        """The folder could not be built; what its name served before goes on serving."""
        self._settle(folder.name)
        self._failed[folder.name] = (folder, problems)

    def removed(self, name: str) -> None:
        """The name is gone from the repository; calls in flight end where they are."""
        self._settle(name)
        self._replace(name)

    def find(self, name: str, instance_id: int) -> ModelInstance:
        """The instance that a call names.  Raises NotFound, or Unavailable when the name has only other loads."""
        instance = self._held.get(instance_id)
        if instance is not None and instance.folder.name == name:
            return instance
        if name in self._current:
            raise Unavailable(
                f"The model `{name}` was just reloaded; send the request again.", retry_after_s=1
            )
        if name in self._loading:
            raise Unavailable(f"The model `{name}` is still loading.")
        raise NotFound(f"The model `{name}` does not exist.", field="model")

    def close_idle(self) -> bool:
        """Close every replaced instance that nobody uses or may still name; true when there was one."""
        now_s = self._clock()
        idle = [instance for instance in self if self._may_close(instance, now_s)]
        for instance in idle:
            del self._held[instance.instance_id]
            instance.model.close()
            log.info("unloaded %s version %s", instance.folder.name, instance.folder.version)
        return bool(idle)

    def close_all(self) -> None:
        """Close everything; only the host's end calls this."""
        for instance in self:
            instance.model.close()
        self._held.clear()
        self._current.clear()

    def statuses(self) -> list[ModelStatus]:
        """One entry per name, in order of names."""
        leaving = {
            instance.folder.name for instance in self if instance.instance_id not in self._current.values()
        }
        names = {*self._current, *self._loading, *self._failed, *leaving}
        return [self._status(name) for name in sorted(names)]

    def _status(self, name: str) -> ModelStatus:
        _, problems = self._failed.get(name, (None, []))
        if name in self._current:
            instance = self._held[self._current[name]]
            return _ready(instance, problems)
        if name in self._loading:
            return _entry(self._loading[name], "loading", problems)
        if name in self._failed:
            return _entry(self._failed[name][0], "failed", problems)
        return _entry(
            next(instance.folder for instance in self if instance.folder.name == name), "unloading", []
        )

    def _may_close(self, instance: ModelInstance, now_s: float) -> bool:
        replaced_at_s = instance.replaced_at_s
        return (
            replaced_at_s is not None and instance.num_calls == 0 and now_s - replaced_at_s >= self._linger_s
        )

    def _replace(self, name: str) -> None:
        number = self._current.pop(name, None)
        if number is not None:
            self._held[number].replaced_at_s = self._clock()

    def _settle(self, name: str) -> None:
        self._loading.pop(name, None)
        self._failed.pop(name, None)


def _entry(folder: ModelFolder, state: ModelState, problems: list[str]) -> ModelStatus:
    return ModelStatus(folder.name, folder.version, 0, str(folder.path), state, problems)


def _ready(instance: ModelInstance, problems: list[str]) -> ModelStatus:
    folder, model = instance.folder, instance.model
    return ModelStatus(
        folder.name,
        folder.version,
        instance.instance_id,
        str(folder.path),
        "ready",
        problems,
        model.max_context,
        model.cache_tokens,
        [_spec(port) for port in model.inputs],
        [_spec(port) for port in model.outputs],
    )


def _spec(port: TensorPort) -> TensorSpec:
    return TensorSpec(port.name, port.dtype, None if port.shape is None else list(port.shape))
