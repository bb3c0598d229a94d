"""The engine of tensor models: runs requests one by one, in the order in which they were submitted."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from graphs.errors import hint
from pipelines.element_types import num_bytes
from pipelines.errors import Overloaded, RequestError
from pipelines.host.backends.tensor_contract import TensorPort, check_inputs
from pipelines.host.engine.engine_contract import ResultCallback, TensorRequest
from pipelines.host.engine.threaded_engine import Delivery, Runnable, ThreadedEngine
from pipelines.telemetry.step_profile import TENSORS, StepProfile
from pipelines.values import Tensors

MAX_WAITING_BYTES = 1 << 30
"""Most bytes of the tensors of all waiting requests of an engine; a single request may be larger."""


@dataclass(frozen=True)
class _Work:
    key: Hashable
    inputs: Tensors
    outputs: list[str]
    on_result: ResultCallback

    @property
    def num_bytes(self) -> int:
        return sum(num_bytes(array) for array in self.inputs.values())


class TensorEngine(ThreadedEngine[_Work]):
    """A request is in `_waiting` until its run starts or it is cancelled."""

    def __init__(
        self,
        body: Runnable,
        inputs: Mapping[str, TensorPort],
        outputs: Mapping[str, TensorPort],
        max_waiting: int,
        profile: StepProfile | None = None,
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self._max_waiting = max_waiting
        self._waiting: dict[Hashable, _Work] = {}
        super().__init__(body, profile or StepProfile())

    def submit(self, key: Hashable, request: TensorRequest) -> None:
        check_inputs(self.inputs, request.inputs)
        for name in request.outputs or ():
            if name not in self.outputs:
                message = f"This model has no output `{name}`{hint(name, self.outputs, 'outputs')}"
                raise RequestError(message, field=name)
        outputs = list(self.outputs) if request.outputs is None else request.outputs
        work = _Work(key, Tensors(request.inputs), outputs, request.on_result)
        with self._condition:
            if self._is_full(work):
                raise Overloaded(f"{len(self._waiting)} requests wait for this model already")
            self._waiting[key] = work
            self._condition.notify()

    def _is_full(self, work: _Work) -> bool:
        held = [each.num_bytes for each in self._waiting.values()]
        too_large = bool(held) and sum(held) + work.num_bytes > MAX_WAITING_BYTES
        return len(held) >= self._max_waiting or too_large

    def _due_s(self) -> float | None:
        return 0.0 if self._waiting else None

    def _begin(self) -> _Work:
        self._totals.running = 1
        return self._waiting.pop(next(iter(self._waiting)))

    def _compute(self, work: _Work) -> Tensors:
        given: Tensors = self._body(work.inputs)
        self.profile.mark("body")
        self.profile.end(TENSORS, 0, 0, 0)
        return Tensors({name: given[name] for name in work.outputs})

    def _end(self, work: _Work, result: Tensors | Exception) -> list[Delivery]:
        return [(work.on_result, work.key, result)]

    def _remove(self, key: Hashable) -> None:
        self._waiting.pop(key, None)

    def _remove_all(self) -> None:
        self._waiting.clear()

    def _num_waiting(self) -> int:
        return len(self._waiting)
