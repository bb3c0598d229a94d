"""The engine of tensor models: a queue of requests and the thread that runs them in the order of arrival.

Knows named arrays; knows nothing of files, graphs, wires or what a model computes.  The thread is its own, so
that token steps of other models go on meanwhile; they share the machine's cores and nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from graphs.errors import hint
from pipelines.backends.tensors import TensorPort, check_inputs
from pipelines.engine.counts import Counts
from pipelines.engine.profile import TENSORS, StepProfile
from pipelines.errors import Overloaded, RequestError
from pipelines.values import Tensors

MAX_WAITING_BYTES = 1 << 30
"""Of the tensors of all requests that wait for one engine; a request alone may be larger."""

Answer = dict[str, NDArray[Any]] | Exception
Tell = Callable[[Hashable, Answer], None]


class Runnable(Protocol):
    """The body of the engine's node."""

    def __call__(self, batch: Tensors) -> Tensors: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class _Work:
    inputs: Tensors
    outputs: list[str]
    tell: Tell

    @property
    def num_bytes(self) -> int:
        return sum(array.nbytes for array in self.inputs.values())


class TensorEngine:
    """`submit`, `abort`, `counts` and `close` are for one thread, `body` runs in another.

    A request is in `_waiting` until its run begins or it is aborted.  A run is never interrupted: that of an
    aborted request ends unheard, and the next begins after it.
    """

    has_work = False
    """Nothing is to be stepped: the engine runs by itself."""

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
        self.profile = profile or StepProfile()  # the body marks its lines in it, where it has it too
        self._body = body
        self._max_waiting = max_waiting
        self._waiting: dict[Hashable, _Work] = {}
        self._totals = Counts()
        self._closed = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name="tensors", daemon=True)
        self._thread.start()

    def submit(
        self, key: Hashable, inputs: Mapping[str, NDArray[Any]], outputs: list[str] | None, tell: Tell
    ) -> None:
        """Queue one request; `tell(key, answer)` is called once, from the engine's thread, unless aborted.

        `outputs` None is all.  Raises RequestError naming the tensor, Overloaded when too many wait; then
        nothing was queued.
        """
        check_inputs(self.inputs, inputs)
        for name in outputs or ():
            if name not in self.outputs:
                message = f"This model has no output `{name}`{hint(name, self.outputs, 'outputs')}"
                raise RequestError(message, field=name)
        work = _Work(Tensors(inputs), list(self.outputs) if outputs is None else outputs, tell)
        with self._news:
            if self._is_full(work):
                raise Overloaded(f"{len(self._waiting)} requests wait for this model already")
            self._waiting[key] = work
            self._news.notify()

    def abort(self, key: Hashable, choice: int | None = None) -> None:
        """Forget a request that waits; one that runs, or is unknown, is left alone."""
        with self._news:
            self._waiting.pop(key, None)

    def step(self) -> list[Any]:
        """Nothing."""
        return []

    def counts(self) -> Counts:
        """What runs, what waits and how many runs there were; no tokens and no blocks."""
        with self._news:
            totals = self._totals
            return Counts(
                totals.running, len(self._waiting), steps=totals.steps, failed_steps=totals.failed_steps
            )

    def close(self) -> None:
        """Drop what waits; the thread closes the body after its last run.  Returns before that."""
        with self._news:
            self._closed = True
            self._waiting.clear()
            self._news.notify()

    def _is_full(self, work: _Work) -> bool:
        held = [each.num_bytes for each in self._waiting.values()]
        too_large = bool(held) and sum(held) + work.num_bytes > MAX_WAITING_BYTES
        return len(held) >= self._max_waiting or too_large

    def _serve(self) -> None:
        while (next_up := self._next()) is not None:
            key, work = next_up
            answer = self._run(work)
            with self._news:
                self._totals.running = 0
                self._totals.steps += 1
                self._totals.failed_steps += isinstance(answer, Exception)
            work.tell(key, answer)
        self._body.close()

    def _next(self) -> tuple[Hashable, _Work] | None:
        """The oldest request that waits; None when the engine was closed."""
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._closed)
            if not self._waiting:
                return None
            key = next(iter(self._waiting))
            self._totals.running = 1
            return key, self._waiting.pop(key)

    def _run(self, work: _Work) -> Answer:
        self.profile.begin()
        try:
            given = self._body(work.inputs)
            self.profile.mark("body")
            self.profile.end(TENSORS, 0, 0, 0)
            return {name: given[name] for name in work.outputs}
        except Exception as error:  # whatever it is, it is this request's alone
            return error
