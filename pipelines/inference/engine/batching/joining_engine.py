"""An engine whose runs hold several requests: what becomes of each when a run ends or fails."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Hashable
from itertools import islice
from typing import Any, ClassVar

from pipelines.base.errors import BraidError, EngineError
from pipelines.inference.engine.batching.failure_isolation import AnyPart, FailedBatches, Joined
from pipelines.inference.engine.batching.threaded_engine import (
    Delivery,
    FinishedBatch,
    Runnable,
    ThreadedEngine,
)
from pipelines.inference.engine.interface.engine_contract import EngineView, Identity, Result
from pipelines.telemetry.step_profile import StepProfile
from pipelines.wire.engine_view import MAX_SEQUENCES, EngineNodeKind, SequenceView

log = logging.getLogger("braid.engine")


class JoiningEngine(ThreadedEngine[list[AnyPart]]):
    """A request is in `_requests` until it has its result, failed or was cancelled.

    A batch that fails is run again in halves, until a request fails alone: it gets one error, and what waits
    of it is dropped.
    """

    shown_as: ClassVar[EngineNodeKind]

    def __init__(
        self,
        body: Runnable,
        profile: StepProfile,
        warm: Callable[[], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
        num_threads: int = 1,
    ) -> None:
        self._requests: dict[Hashable, Joined] = {}
        self._failed_batches: FailedBatches[AnyPart] = FailedBatches()
        super().__init__(body, profile, warm, clock, num_threads)

    def view(self, identify: Callable[[Hashable], Identity]) -> EngineView:
        with self._condition:
            shown = islice(self._requests.items(), MAX_SEQUENCES)
            return EngineView(self.shown_as, [self._view_of(one, identify(key)) for key, one in shown])

    # What a queue is, with `_condition` held

    @abstractmethod
    def _queue_due_s(self) -> float | None:
        """How long until a batch of what is queued may begin; 0 at once, None while nothing is."""

    @abstractmethod
    def _take(self) -> list[AnyPart]:
        """The next batch of what is queued; something is."""

    @abstractmethod
    def _count(self, parts: list[AnyPart], result: Any) -> int:
        """Count a run that succeeded; gives its tokens."""

    @abstractmethod
    def _result(self, part: AnyPart, result: Any) -> Result | None:
        """The result of the part's request after a run; None where more of it is to run."""

    @abstractmethod
    def _drop(self, request: Any) -> None:
        """Remove what is queued of a request."""

    @abstractmethod
    def _num_queued(self) -> int: ...

    @abstractmethod
    def _view_of(self, request: Any, identity: Identity) -> SequenceView:
        """What is shown of a request; it runs while something of it does."""

    # What a thread does with it

    def _due_s(self) -> float | None:
        return 0.0 if self._failed_batches else self._queue_due_s()

    def _begin(self) -> list[AnyPart]:
        return self._failed_batches.take() if self._failed_batches else self._take()

    def _size(self, parts: list[AnyPart]) -> int:
        return sum(map(len, parts))

    def _end(self, parts: list[AnyPart], result: Any, began_s: float) -> list[Delivery]:
        if isinstance(result, Exception):
            return self._failed(parts, result)
        waits = [(len(part), began_s - part.request.arrived_s) for part in parts]
        ran = FinishedBatch(self._count(parts, result), self._clock() - began_s, waits)
        self.finished_batches.append(ran)
        done = ((part.request, self._result(part, result)) for part in parts)
        return [one for request, value in done if value is not None for one in self._deliver(request, value)]

    def _failed(self, parts: list[AnyPart], error: Exception) -> list[Delivery]:
        waited_for = [part for part in parts if self._is_open(part.request)]
        if self._failed_batches.add(waited_for):
            log.warning("a batch of several requests failed and is run again in halves: %r", error)
            return []
        failure = _failure(error)
        return [one for part in waited_for for one in self._deliver(part.request, failure)]

    def _deliver(self, request: Joined, result: Result) -> list[Delivery]:
        """The end of a request; nothing of one that was cancelled, or has failed already."""
        if not self._is_open(request):
            return []
        self._remove(request.key)
        return [(request.on_result, request.key, result)]

    def _is_open(self, request: Joined) -> bool:
        return self._requests.get(request.key) is request

    def _remove(self, key: Hashable) -> None:
        request = self._requests.pop(key, None)
        if request is not None:
            self._drop(request)
            self._failed_batches.drop(request)

    def _remove_all(self) -> None:
        for key in list(self._requests):
            self._remove(key)

    def _num_waiting(self) -> int:
        return self._num_queued() + sum(map(len, self._failed_batches))


def _failure(error: Exception) -> BraidError:
    """The error for the client; an error that is not the request's fault is logged."""
    if isinstance(error, BraidError):
        return error
    log.error("a batch failed", exc_info=error)
    return EngineError("the batch of this request failed; see the server's log")
