"""How many files and connections each process of a server may have open."""

from __future__ import annotations

import contextlib
import resource

ENOUGH = 1 << 16
"""Open files of a process; each connection is one, and each part of a large index up to nine."""


def allow_open_files() -> None:
    """Raise this process's limit of open files, which processes that it starts inherit, to ENOUGH or the most
    that the system allows: the usual 1,024 is meant for programs that use `select`, which none here does.
    """
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if most == resource.RLIM_INFINITY else min(ENOUGH, most)
    if now == resource.RLIM_INFINITY or now >= wanted:
        return
    with contextlib.suppress(OSError, ValueError):  # macOS allows fewer than its limit says
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
