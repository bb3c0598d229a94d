"""The engine of tensor models: requests run in turn, several at once or joined along their first length."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from graphs.errors import hint
from pipelines.base.element_types import num_bytes
from pipelines.base.errors import EngineError, Overloaded, RequestError
from pipelines.inference.contracts.tensor_contract import TensorPort, check_inputs
from pipelines.inference.engine.batching.joining_engine import JoiningEngine
from pipelines.inference.engine.batching.tensor_queue import TensorQueue, TensorWork, joined_shapes
from pipelines.inference.engine.batching.threaded_engine import Runnable
from pipelines.inference.engine.interface.engine_contract import Identity, TensorRequest
from pipelines.telemetry.step_profile import TENSORS, StepProfile
from pipelines.values.node_values import Tensors
from pipelines.wire.engine_view import RequestState, SequenceView

MAX_WAITING_BYTES = 1 << 30
"""Most bytes of the tensors of all waiting requests of an engine; a single request may be larger."""


@dataclass(frozen=True, slots=True)
class TensorBatching:
    """A run joins requests of up to `max_batch` rows; one that is not full waits `max_wait_s` for more.

    `num_runs` take place at once; `max_waiting` requests may wait.
    """

    max_batch: int = 1
    max_wait_s: float = 0.0
    num_runs: int = 1
    max_waiting: int = 256


class CannotJoin(EngineError):
    """A model's outputs have not the rows of its inputs, so those of joined requests cannot be cut apart."""


class TensorEngine(JoiningEngine[TensorWork]):
    shown_as = "tensors"

    def __init__(
        self,
        body: Runnable,
        inputs: Mapping[str, TensorPort],
        outputs: Mapping[str, TensorPort],
        settings: TensorBatching,
        profile: StepProfile | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises ValueError where requests cannot be joined, since a first length is not free."""
        self.joins = settings.max_batch > 1
        if self.joins:
            check_joinable(inputs, outputs)
        self.inputs = inputs
        self.outputs = outputs
        self._settings = settings
        self._queue = TensorQueue(settings.max_batch, settings.max_wait_s)
        super().__init__(body, profile or StepProfile(), clock=clock, num_threads=settings.num_runs)

    def submit(self, key: Hashable, request: TensorRequest) -> None:
        check_inputs(self.inputs, request.inputs)
        for name in request.outputs or ():
            if name not in self.outputs:
                message = f"This model has no output `{name}`{hint(name, self.outputs, 'outputs')}"
                raise RequestError(message, field=name)
        work = self._work(key, request)
        with self._condition:
            if self._is_full(work):
                raise Overloaded(f"{len(self._queue)} requests wait for this model already")
            self._requests[key] = work
            self._queue.add(work)
            self._condition.notify()

    def _work(self, key: Hashable, request: TensorRequest) -> TensorWork:
        inputs = Tensors(request.inputs)
        shapes, rows = joined_shapes(inputs) if self.joins else (None, 0)
        return TensorWork(
            key=key,
            on_result=request.on_result,
            arrived_s=self._clock(),
            tenant=request.origin.tenant,
            inputs=inputs,
            outputs=list(self.outputs) if request.outputs is None else request.outputs,
            num_bytes=sum(map(num_bytes, inputs.values())),
            shapes=shapes,
            rows=rows,
        )

    def _is_full(self, work: TensorWork) -> bool:
        waiting = self._queue
        too_large = bool(waiting) and waiting.num_bytes + work.num_bytes > MAX_WAITING_BYTES
        return len(waiting) >= self._settings.max_waiting or too_large

    def _queue_due_s(self) -> float | None:
        return self._queue.due_s(self._clock())

    def _take(self) -> list[TensorWork]:
        return self._queue.take()

    def _compute(self, works: list[TensorWork]) -> dict[TensorWork, Tensors]:
        """The outputs of each request."""
        joined = Tensors(works[0].inputs)
        if len(works) > 1:
            joined = Tensors({name: np.concatenate([work.inputs[name] for work in works]) for name in joined})
            self.profile.mark("gather")
        outputs: Tensors = self._body(joined)
        self.profile.mark("body")
        self._check_rows(outputs, works)
        self.profile.end(TENSORS, 0, len(works), 0)
        return dict(zip(works, _cut(outputs, works), strict=True))

    def _check_rows(self, outputs: Tensors, works: list[TensorWork]) -> None:
        """Raise CannotJoin; for a request that runs alone, too, so that the first one says what is wrong."""
        if works[0].shapes is None:
            return
        rows = sum(work.rows for work in works)
        for name in self.outputs:
            if outputs[name].shape[:1] != (rows,):
                raise CannotJoin(
                    f"The output `{name}` is of shape {list(outputs[name].shape)} for inputs of {rows} rows, "
                    "so requests to this model cannot be joined; remove `max_batch` from its graph"
                )

    def _count(self, works: list[TensorWork], result: dict[TensorWork, Tensors]) -> int:
        return 0

    def _result(self, work: TensorWork, result: dict[TensorWork, Tensors]) -> Tensors:
        return result[work]

    def _drop(self, work: TensorWork) -> None:
        self._queue.drop(work)

    def _num_queued(self) -> int:
        return len(self._queue)

    def _view_of(self, work: TensorWork, identity: Identity) -> SequenceView:
        state: RequestState = "waiting" if work in self._queue else "running"
        return SequenceView(
            name=identity.name,
            choice=0,
            state=state,
            prompt_tokens=0,
            prompt_done=0,
            cached_tokens=0,
            output_tokens=0,
            max_tokens=0,
            blocks=0,
            age_s=identity.age_s,
            adapter=identity.adapter,
            tenant=identity.tenant,
        )


def check_joinable(inputs: Mapping[str, TensorPort], outputs: Mapping[str, TensorPort]) -> None:
    """Raise ValueError unless the first length of every input and output is free."""
    for kind, ports in (("input", inputs), ("output", outputs)):
        for name, port in ports.items():
            if port.shape is not None and (not port.shape or port.shape[0] is not None):
                raise ValueError(
                    "max_batch: requests are joined along the first length, but that of the "
                    f"{kind} `{name}`, {port}, is not free; set `batch_size: -1` in the model's line, or "
                    "remove max_batch"
                )


def _cut(given: Tensors, works: list[TensorWork]) -> list[Tensors]:
    """What each request wants of the outputs of a run."""
    if len(works) == 1:
        return [Tensors({name: given[name] for name in works[0].outputs})]
    cut, at = [], 0
    for work in works:
        cut.append(Tensors({name: given[name][at : at + work.rows] for name in work.outputs}))
        at += work.rows
    return cut
