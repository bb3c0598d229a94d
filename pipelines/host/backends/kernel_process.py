"""Has the CPU kernels compiled by `pipelines.host.kernel_build`, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
COMMAND = (sys.executable, "-P", "-m", "pipelines.host.kernel_build")
BUSY = os.EX_TEMPFAIL
"""The exit status of that process where another one compiles already."""


def compile_kernels() -> subprocess.CompletedProcess[str]:
    """Wait for a process that compiles what is missing; its stdout is a line for each library."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH")]
    return subprocess.run(
        [*COMMAND, "--parent", str(os.getpid())],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # its compilers end with it
    )
