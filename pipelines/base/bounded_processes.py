"""Work of clients that is a program in itself (a template, a grammar), done in processes beside this one with
bounded time and memory.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from pipelines.base import ROOT
from pipelines.base.cancellation import check_cancelled
from pipelines.base.errors import Unavailable

TICK_S = 0.1
"""How long a wait is blind to a client that has left."""
PATIENCE = 20
"""Seconds of waiting for each second of processor time that a job may take, on a machine under load."""
START_S = 30.0
STOP_S = 5.0


def child_environment() -> dict[str, str]:
    """The environment of a Python process that is to import the packages of this one."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


class JobOutcome(NamedTuple):
    """What a job gave, and the seconds of processor time that it took."""

    value: Any
    took_s: float


class OutOfBounds(Exception):
    """A job took too much memory, or time, and its process died; the text says which."""


class OutOfTime(OutOfBounds):
    """A job took too much of the processor's time."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"it took longer than {limit_s:g} s")


class BoundedProcess:
    """A process that does one job at a time."""

    def __init__(
        self, module: str, max_memory_bytes: int, environment: Mapping[str, str] | None = None
    ) -> None:
        """`environment` is added to that of this process.  Raises OSError where no process can be started."""
        command = [
            sys.executable,
            "-P",
            "-m",
            "pipelines.base.bounded_process",
            module,
            str(max_memory_bytes),
        ]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=child_environment() | dict(environment or {}),
            start_new_session=True,
        )
        self._waits_s = START_S

    def outcome(self, job: Any, limit_s: float) -> JobOutcome:
        """What became of a job.  Raises OutOfBounds where the process died of it, WorkCancelled, and
        TimeoutError where it does not even die.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"job": job, "limit_s": limit_s}).encode() + b"\n")
            self._process.stdin.flush()
            line = self._line(time.monotonic() + self._waits_s + PATIENCE * limit_s)
        except BrokenPipeError:
            line = b""
        self._waits_s = 0.0
        if not line.endswith(b"\n"):
            is_late = self.end() == -signal.SIGPROF
            raise OutOfTime(limit_s) if is_late else OutOfBounds("it took more memory than it may take")
        reply = json.loads(line)
        return JobOutcome(reply["outcome"], reply["took_s"])

    def _line(self, ends_s: float) -> bytes:
        assert self._process.stdout is not None
        pieces: list[bytes] = []
        ready = select.poll()
        ready.register(self._process.stdout, select.POLLIN)
        while not pieces or not pieces[-1].endswith(b"\n"):
            check_cancelled()
            if time.monotonic() > ends_s:
                raise TimeoutError
            if ready.poll(TICK_S * 1000):
                piece = os.read(self._process.stdout.fileno(), 1 << 20)
                if not piece:
                    break
                pieces.append(piece)
        return b"".join(pieces)

    def end(self) -> int:
        """End the process; its exit status, minus the signal that ended it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            return self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def kill(self) -> None:
        self._process.kill()
        self.end()


class BoundedProcesses:
    """At most `num` processes for the jobs of a module, each started when it is first needed, and used again.

    For any thread; the work queues, whose threads ask, let tenants take turns.
    """

    def __init__(self, module: str, num: int, max_memory_bytes: int, what: str) -> None:
        """`what` the processes do, for error texts."""
        self._module = module
        self._max_memory_bytes = max_memory_bytes
        self._what = what
        self._free = threading.Semaphore(num)
        self._idle: list[BoundedProcess] = []
        atexit.register(self.close)

    def outcome(self, job: Any, limit_s: float) -> JobOutcome:
        """What became of a job.  Raises OutOfBounds, WorkCancelled where its client left, and Unavailable
        while others take all processes.
        """
        self._acquire(PATIENCE * limit_s)
        try:
            process = self._idle.pop() if self._idle else BoundedProcess(self._module, self._max_memory_bytes)
            try:
                result = process.outcome(job, limit_s)
            except TimeoutError as error:
                process.kill()
                raise OutOfTime(limit_s) from error
            except BaseException:
                process.kill()  # an outcome that comes later would be taken for that of another job
                raise
            self._idle.append(process)
            return result
        finally:
            self._free.release()

    def _acquire(self, patience_s: float) -> None:
        ends_s = time.monotonic() + patience_s
        while not self._free.acquire(timeout=TICK_S):
            check_cancelled()
            if time.monotonic() > ends_s:
                raise Unavailable(f"all processes that {self._what} of requests are busy")

    def close(self) -> None:
        while self._idle:
            self._idle.pop().end()
