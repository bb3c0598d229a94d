"""A process that ends when its parent does, or before another where memory runs out."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
OUT_OF_MEMORY_SCORE = Path("/proc/self/oom_score_adj")


def die_with_parent(parent: int | None) -> None:
    """Receive SIGTERM when the process `parent`, which started this one, dies, also by SIGKILL."""
    if parent is None or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before the call
        os.kill(os.getpid(), signal.SIGTERM)


def die_first_without_memory() -> None:
    """Have Linux end this process first where memory runs out, and not the one that serves."""
    with contextlib.suppress(OSError):
        OUT_OF_MEMORY_SCORE.write_text("1000")
