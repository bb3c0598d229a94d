"""A process that does one kind of work for others: it may run out of time or memory, and die of it.

Started as `python -m pipelines.base.bounded_process MODULE BYTES`.  It reads jobs from its standard input and
writes an outcome for each to its standard output, as lines of JSON.  `MODULE.outcome` does a job.  The kernel
ends the process when a job takes too much of the processor's time, whatever it is doing.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

NICE = 5
"""How far other processes go before: a costly job takes little from the steps of models."""


def main(outcome: Callable[[Any], Any], max_memory_bytes: int) -> None:
    """Work until the input ends; the process gets at most `max_memory_bytes` of addresses."""
    resource.setrlimit(resource.RLIMIT_AS, (max_memory_bytes, max_memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(NICE)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal; the process ends with its input
    for line in sys.stdin.buffer:
        job = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, job["limit_s"])
        began_s = time.process_time()
        result = outcome(job["job"])
        done = {"outcome": result, "took_s": time.process_time() - began_s}
        written = json.dumps(done).encode() + b"\n"
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.buffer.write(written)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        main(import_module(sys.argv[1]).outcome, int(sys.argv[2]))
    except MemoryError:
        sys.exit(1)
