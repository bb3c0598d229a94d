"""An engine with threads of its own, in which it runs its body over the waiting requests.

So the token steps of other models continue meanwhile; engines share only the machine's cores.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar
from weakref import WeakSet

from pipelines.inference.engine.interface.engine_contract import (
    EngineKind,
    EngineView,
    Identity,
    Result,
    ResultCallback,
    TensorRequest,
)
from pipelines.telemetry.engine_counts import Counts
from pipelines.telemetry.step_profile import StepProfile

log = logging.getLogger("braid.engine")

Delivery = tuple[ResultCallback, Hashable, Result]
"""A request's callback and its arguments."""
Job = TypeVar("Job")


class ThreadEnded(BaseException):
    """An engine's thread ended by a fault of its own. Like DeviceLost it ends the host."""


@dataclass(frozen=True, slots=True)
class FinishedBatch:
    """A run that succeeded; `waits` are (how many texts or requests, how long they had waited before).

    `num_tokens` is 0 for tensors, which have none.
    """

    num_tokens: int
    took_s: float
    waits: list[tuple[int, float]]


class Runnable(Protocol):
    """The body of the engine's node."""

    def __call__(self, root: Any, /) -> Any: ...

    def close(self) -> None: ...


_ending: WeakSet[threading.Thread] = WeakSet()
"""The threads of engines of this process that are closed."""


def wait_for_threads(timeout_s: float) -> None:
    """Wait until the threads of engines that are closed have ended, `timeout_s` at most for each.

    A program that ends while one of them is inside a library is aborted by it.
    """
    for thread in [*_ending]:
        thread.join(timeout_s)


class ThreadedEngine(ABC, Generic[Job]):
    """`submit`, `cancel`, `counts`, `check_alive` and `close` are for one thread at a time, `body` runs in
    others.

    A job is the input of one run of the body; each thread runs one at a time. A run is never interrupted: the
    result of a cancelled request is dropped.  A subclass reads and writes its queue under `_condition`; it
    sets its own fields before it calls `__init__`, which starts the threads.
    """

    kind: ClassVar[Literal[EngineKind.THREADED]] = EngineKind.THREADED

    def __init__(
        self,
        body: Runnable,
        profile: StepProfile,
        warm: Callable[[], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
        num_threads: int = 1,
    ) -> None:
        """`profile` is the one in which the body marks its lines, if it does; `warm` is called while no
        request waits, until it returns False.  A body of several threads may be called by all at once.
        """
        self.profile = profile
        self.finished_batches: deque[FinishedBatch] = deque()  # not published yet
        self._body = body
        self._warm = warm
        self._clock = clock
        self._totals = Counts()
        self._closed = False
        self._failure: BaseException | None = None
        self._condition = threading.Condition()
        self._num_serving = num_threads
        self._threads = [
            threading.Thread(target=self._serve, name=type(self).__name__, daemon=True)
            for _ in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    @abstractmethod
    def submit(self, key: Hashable, request: TensorRequest) -> None:
        """Queue one request.

        Raises RequestError naming what is wrong, Overloaded when too much waits; then nothing was queued.
        """

    def check_alive(self) -> None:
        """Raise DeviceLost, or ThreadEnded, when a thread of the engine has ended."""
        if self._failure is not None:
            raise self._failure

    def cancel(self, key: Hashable, choice: int | None = None) -> None:
        """Drop what waits of a request; one that is unknown is no error."""
        with self._condition:
            self._remove(key)

    def counts(self) -> Counts:
        """What runs, what waits, and the totals of runs."""
        with self._condition:
            now = copy.copy(self._totals)
            now.waiting = self._num_waiting()
            return now

    @abstractmethod
    def view(self, identify: Callable[[Hashable], Identity]) -> EngineView:
        """The oldest requests in flight."""

    def close(self) -> None:
        """Drop what waits; the last thread closes the body after its last run.  Returns before that."""
        _ending.update(self._threads)
        with self._condition:
            self._closed = True
            self._remove_all()
            self._condition.notify_all()

    # What an engine is; all but `_compute` with `_condition` held

    def _between_jobs(self) -> None:
        """What is to be done in the engine's thread while none of its jobs runs, and before the next one."""

    @abstractmethod
    def _due_s(self) -> float | None:
        """How long until a job may begin; 0 at once, None while nothing waits."""

    @abstractmethod
    def _begin(self) -> Job:
        """The next job, which waits no longer."""

    @abstractmethod
    def _size(self, job: Job) -> int:
        """How many texts or requests a job holds."""

    @abstractmethod
    def _compute(self, job: Job) -> Any:
        """Run the body, in a thread; the profile of the step has begun."""

    @abstractmethod
    def _end(self, job: Job, result: Any, began_s: float) -> list[Delivery]:
        """The results to deliver after `_compute`, begun at `began_s`, has returned `result` or raised it."""

    @abstractmethod
    def _remove(self, key: Hashable) -> None: ...

    @abstractmethod
    def _remove_all(self) -> None: ...

    @abstractmethod
    def _num_waiting(self) -> int: ...

    # The threads

    def _serve(self) -> None:
        try:
            while not self._closed:
                self._turn()
        except Exception as error:
            log.exception("an engine's thread ends")
            self._failure = ThreadEnded(f"an engine's thread ended: {error!r}")
        except BaseException as error:  # the device is lost
            self._failure = error
        else:
            self._leave()

    def _leave(self) -> None:
        """The last thread closes the body; none does where one failed, whose device may be lost."""
        with self._condition:
            self._num_serving -= 1
            is_last = not self._num_serving
        if is_last:
            self._body.close()

    def _turn(self) -> None:
        with self._condition:
            job = self._next()
        if job is not None:
            self._run(job)
        elif self._warm is not None and not self._closed:
            self._warm_up(self._warm)

    def _next(self) -> Job | None:
        """The job that is due; None when the engine was closed, or has time to be warmed."""
        while not self._closed:
            self._between_jobs()
            due_s = self._due_s()
            if due_s is None and self._warm is not None:
                return None
            if due_s is not None and due_s <= 0:
                job = self._begin()
                self._totals.running += self._size(job)
                return job
            self._condition.wait(due_s)
        return None

    def _run(self, job: Job) -> None:
        began_s = self._clock()
        self.profile.start()
        try:
            result = self._compute(job)
        except Exception as error:  # whatever it is, it is that of this job's requests alone
            result = error
        with self._condition:
            deliveries = self._end(job, result, began_s)
            self._totals.running -= self._size(job)
            self._totals.steps += 1
            if isinstance(result, Exception):
                self._totals.failed_steps += 1
                self._condition.notify()  # parts of the job may run again, in another thread too
        for on_result, key, part in deliveries:
            on_result(key, part)

    def _warm_up(self, warm: Callable[[], bool]) -> None:
        """A model that fails here may serve all the same."""
        try:
            more = warm()
        except Exception:
            log.exception("a model could not be warmed")
            more = False
        if not more:
            self._warm = None
