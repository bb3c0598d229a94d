"""Has the CPU kernels compiled by `pipelines.host.kernel_build`, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

from pipelines.base.bounded_processes import child_environment

COMMAND = (sys.executable, "-P", "-m", "pipelines.host.kernel_build")
BUSY = os.EX_TEMPFAIL
"""The exit status of that process where another one compiles already."""


def compile_kernels(waits: bool = False) -> subprocess.CompletedProcess[str]:
    """Wait for a process that compiles what is missing; its stdout is a line for each library.

    Where another process compiles already, this one `waits` for its end, or returns BUSY.
    """
    return subprocess.run(
        [*COMMAND, "--parent", str(os.getpid()), *(["--wait"] if waits else [])],
        env=child_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # its compilers end with it
    )
