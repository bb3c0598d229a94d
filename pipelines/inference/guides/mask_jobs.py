"""Fills token masks in threads; a mask that takes longer than a step may wait is late, and others are not."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import get_ident
from typing import Any

from pipelines.inference.guides.draft_masks import DraftRun, fill_run_masks

PATIENCE_S = 0.02
"""Processor time of a job after which its step goes on without it."""
MAX_MASK_S = 0.25
"""Processor time that one mask may take."""
TICK_S = 0.01


class MaskJob:
    """The masks of some runs, one after another.

    bits: int32[rows of all runs, ceil(vocab / 32)]; a set bit allows its id.  `filled` says of each row that
    is done whether it has a mask.
    """

    def __init__(self, runs: list[DraftRun], bits: Any) -> None:
        self.runs = runs
        self.bits = bits
        self.filled: list[bool] = []
        self.done: Future[None]
        self._clock: Callable[[], float] | None = None
        self._began_s = 0.0

    def fill(self) -> None:
        """Fill the masks; runs in a thread."""
        now_s = self._began_s = time.thread_time()
        self._clock = _clock_of_this_thread()
        for run in self.runs:
            first = len(self.filled)
            rows = self.bits[first : first + len(run.rows)]
            if run.draft_tokens:
                self.filled += fill_run_masks(run.guide, rows, run.draft_tokens)
            else:
                run.guide.fill(rows[0])
                self.filled.append(True)
            began_s, now_s = now_s, time.thread_time()
            if now_s - began_s > PATIENCE_S:
                run.guide.is_slow = True
                run.guide.is_over = now_s - began_s > MAX_MASK_S * len(rows)

    @property
    def has_begun(self) -> bool:
        return self._clock is not None

    @property
    def is_late(self) -> bool:
        """A job is late once it runs for longer than its step waits."""
        clock = self._clock
        return clock is not None and not self.done.done() and clock() - self._began_s > PATIENCE_S

    def mark_late(self) -> list[bool]:
        """One truth value a row: it has a mask; the guides of runs that are not done are late."""
        filled, at = list(self.filled), 0
        for run in self.runs:
            if at >= len(filled):
                run.guide.late = LateRow(self, at)
                filled += [False] * len(run.rows)
            at += len(run.rows)
        return filled


@dataclass(frozen=True)
class LateRow:
    """The mask of a guide's next token, in a job that its step did not wait for."""

    job: MaskJob
    row: int

    @property
    def is_ready(self) -> bool:
        return self.job.done.done()

    def copy_to(self, bits: Any) -> bool:
        """Once it is ready: whether there is a mask, then written to `bits`.  Raises what `fill` raised."""
        self.job.done.result()
        bits[:] = self.job.bits[self.row]
        return self.job.filled[self.row]


class MaskThreads:
    """Threads for jobs, which do not wait for those of other threads."""

    def __init__(self, num: int, name: str) -> None:
        self.num = num
        self._threads = ThreadPoolExecutor(num, name)
        self._jobs: list[MaskJob] = []

    def submit(self, runs: list[DraftRun], bits: Any) -> MaskJob:
        job = MaskJob(runs, bits)
        job.done = self._threads.submit(job.fill)
        self._jobs = [each for each in self._jobs if not each.done.done()]
        self._jobs.append(job)
        return job

    def filled(self, job: MaskJob) -> list[bool]:
        """Whether each row of a job has a mask; waits for the job unless that is late, or is behind
        one that is.  Raises what a guide raised.
        """
        while not job.done.done():
            if job.is_late or (not job.has_begun and any(each.is_late for each in self._jobs)):
                return job.mark_late()
            wait([job.done], TICK_S)
        job.done.result()
        return job.filled

    def close(self) -> None:
        self._threads.shutdown()


def _clock_of_this_thread() -> Callable[[], float]:
    """Reads this thread's processor time from any thread; wall time where the system has no such clock."""
    identify = getattr(time, "pthread_getcpuclockid", None)
    if identify is None:
        offset_s = time.thread_time() - time.monotonic()
        return lambda: time.monotonic() + offset_s
    clock = identify(get_ident())
    return lambda: time.clock_gettime(clock)
