"""How long a call takes, for measurements in turns."""

from __future__ import annotations

import time
from collections.abc import Callable


def took(work: Callable[[], object]) -> tuple[float, float]:
    """(seconds, processor seconds of this process) of a call."""
    began_s, used_s = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began_s, time.process_time() - used_s
