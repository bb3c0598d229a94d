"""The engine of tensor models: requests are run one by one in the order of arrival.

Knows named arrays; knows nothing of files, graphs, wires or what a model computes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from graphs.errors import hint
from pipelines.errors import Overloaded, RequestError
from pipelines.host.backends.tensor_contract import TensorPort, check_inputs
from pipelines.host.engine.threaded_engine import Runnable, Tell, ThreadedEngine, Told
from pipelines.telemetry.step_profile import TENSORS, StepProfile
from pipelines.values import Tensors

MAX_WAITING_BYTES = 1 << 30
"""Of the tensors of all requests that wait for one engine; a request alone may be larger."""


@dataclass(frozen=True)
class _Work:
    key: Hashable
    inputs: Tensors
    outputs: list[str]
    tell: Tell

    @property
    def num_bytes(self) -> int:
        return sum(array.nbytes for array in self.inputs.values())


class TensorEngine(ThreadedEngine[_Work]):
    """A request is in `_waiting` until its run begins or it is aborted."""

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

    def submit(
        self, key: Hashable, inputs: Mapping[str, NDArray[Any]], outputs: list[str] | None, tell: Tell
    ) -> None:
        check_inputs(self.inputs, inputs)
        for name in outputs or ():
            if name not in self.outputs:
                message = f"This model has no output `{name}`{hint(name, self.outputs, 'outputs')}"
                raise RequestError(message, field=name)
        work = _Work(key, Tensors(inputs), list(self.outputs) if outputs is None else outputs, tell)
        with self._news:
            if self._is_full(work):
                raise Overloaded(f"{len(self._waiting)} requests wait for this model already")
            self._waiting[key] = work
            self._news.notify()

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

    def _end(self, work: _Work, result: Tensors | Exception) -> list[Told]:
        return [(work.tell, work.key, result)]

    def _forget(self, key: Hashable) -> None:
        self._waiting.pop(key, None)

    def _forget_all(self) -> None:
        self._waiting.clear()

    def _num_waiting(self) -> int:
        return len(self._waiting)
