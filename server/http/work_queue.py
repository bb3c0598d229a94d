"""Threads for what a request costs before and beside its model: parsing, rendering, tokenizing.

They do nothing else, so that metrics, models and stored responses never wait for them.  Short and long work
have threads of their own, so that the first never waits for the second.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from pipelines.base.cancellation import ShortWork, cancelled_by
from pipelines.base.errors import Overloaded

LONG_WORK_BYTES = 64 << 10
"""Work on more bytes than this is long."""
NUM_THREADS = 2
"""Threads for each kind of work: most of it holds the interpreter's lock, or uses all cores by itself."""
TENANT_SHARE = 0.5
"""The part of the queue's bytes that one tenant may take."""
RETRY_AFTER_S = 2

Result = TypeVar("Result")


class Job:
    """Work that waits or runs; `done` will hold its result."""

    __slots__ = ("cancelled", "done", "num_bytes", "queue", "tenant", "work")

    def __init__(self, queue: WorkQueue, work: Callable[[], Any], num_bytes: int, tenant: str) -> None:
        self.queue = queue
        self.num_bytes = num_bytes
        self.tenant = tenant
        self.cancelled = threading.Event()
        self.work = partial(copy_context().run, _run, work, self.cancelled, queue.is_short)
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def drop(self, error: Exception) -> None:
        """Drop the result: its receiver gets `error`, work that waits never runs, long work ends."""
        self.cancelled.set()
        self.queue.remove(self)
        if not self.done.done():
            self.done.set_exception(error)


def _run(work: Callable[[], Any], cancelled: threading.Event, is_short: bool) -> Any:
    """What `work` returns.  It knows no job: work holds a whole request, and a job that held itself would
    keep that until the next collection of garbage.
    """
    with cancelled_by(cancelled), ShortWork() if is_short else nullcontext():
        return work()


class WorkQueue:
    """Work of one kind: tenants take turns, each in the order of arrival.

    All methods belong to the event loop.
    """

    def __init__(self, name: str, max_bytes: int, is_short: bool = False) -> None:
        """Where it `is_short`, work that turns out to be long raises TakesLong."""
        self.is_short = is_short
        self._max_bytes = max_bytes
        self._bytes: Counter[str] = Counter()  # of each tenant, waiting and running
        self._waiting: dict[str, deque[Job]] = {}  # in the order of turns; no empty ones
        self._num_running = 0
        self._name = name
        self._threads: ThreadPoolExecutor | None = None  # from the first work on

    def put(self, work: Callable[[], Any], num_bytes: int, tenant: str) -> Job:
        """Queue work; it holds memory until `done`.  Raises Overloaded when the queue is full."""
        self._check_room(num_bytes, tenant)
        job = Job(self, work, num_bytes, tenant)
        self._bytes[tenant] += num_bytes
        self._waiting.setdefault(tenant, deque()).append(job)
        self._start()
        return job

    def _check_room(self, num_bytes: int, tenant: str) -> None:
        """Work fits beside what others wait for, and beside its tenant's own; alone it always fits."""
        held = self._bytes[tenant]
        if held and held + num_bytes > self._max_bytes * TENANT_SHARE:
            whose = "of this API key or session "
        elif self._bytes.total() and self._bytes.total() + num_bytes > self._max_bytes:
            whose = ""
        else:
            return
        raise Overloaded(
            f"{self._max_bytes >> 20} MB of requests {whose}wait to be read by this worker; try again soon",
            RETRY_AFTER_S,
        )

    def remove(self, job: Job) -> None:
        """Forget work that waits; work that runs is left alone, and holds its memory until it ends."""
        jobs = self._waiting.get(job.tenant, deque())
        if job in jobs:
            jobs.remove(job)
            self._forget(job)
            if not jobs:
                del self._waiting[job.tenant]

    def _start(self) -> None:
        """Start waiting work while a thread is free."""
        self._threads = self._threads or ThreadPoolExecutor(NUM_THREADS, self._name)
        while self._waiting and self._num_running < NUM_THREADS:
            tenant = next(iter(self._waiting))
            jobs = self._waiting.pop(tenant)
            job = jobs.popleft()
            if jobs:
                self._waiting[tenant] = jobs  # behind all other tenants
            self._num_running += 1
            running = asyncio.get_running_loop().run_in_executor(self._threads, job.work)
            running.add_done_callback(partial(self._ended, job))

    def _ended(self, job: Job, ended: asyncio.Future[Any]) -> None:
        self._num_running -= 1
        self._forget(job)
        error = ended.exception()
        if not job.done.done():
            if error is None:
                job.done.set_result(ended.result())
            else:
                job.done.set_exception(error)
        self._start()

    def _forget(self, job: Job) -> None:
        self._bytes[job.tenant] -= job.num_bytes
        if not self._bytes[job.tenant]:
            del self._bytes[job.tenant]

    def close(self) -> None:
        """What runs ends by itself."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None


class Work:
    """The queues of a worker: one for short work, one for long."""

    def __init__(self, max_body_mb: int) -> None:
        max_bytes = 4 * max_body_mb << 20
        self._short = WorkQueue("short-work", max_bytes, is_short=True)
        self._long = WorkQueue("long-work", max_bytes)

    def put(self, work: Callable[[], Any], num_bytes: int, tenant: str) -> Job:
        """Queue work on `num_bytes` of text.  Raises Overloaded."""
        queue = self._long if num_bytes > LONG_WORK_BYTES else self._short
        return queue.put(work, num_bytes, tenant)

    def close(self) -> None:
        self._short.close()
        self._long.close()
