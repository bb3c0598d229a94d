"""What the processes of a server use: memory, descriptors and threads of each, by the number of requests."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import psutil


class Usage(NamedTuple):
    """`pss_kb`: its private memory, and its part of what it shares with others."""

    rss_kb: float
    pss_kb: float
    descriptors: int
    threads: int


class Sample(NamedTuple):
    """`usage` by process name, after `requests` requests."""

    requests: int
    seconds: float
    usage: dict[str, Usage]


def named_processes(master_pid: int) -> dict[str, psutil.Process]:
    """The master and its children but those that compile kernels.

    Workers and others are numbered in the order of their process ids.
    """
    master = psutil.Process(master_pid)
    named = {"master": master}
    for child in sorted(_lasting(master), key=lambda process: process.pid):
        role = _role(child)
        number = sum(name.startswith(role) for name in named) + 1
        named[role if role == "engine host" else f"{role} {number}"] = child
    return named


def usage_of(processes: dict[str, psutil.Process]) -> dict[str, Usage]:
    """What each process that has not ended uses, by its name."""
    found = {}
    for name, process in processes.items():
        with suppress(psutil.NoSuchProcess):
            found[name] = _usage(process)
    return found


def _lasting(process: psutil.Process) -> list[psutil.Process]:
    """All below `process` but a compiler of kernels with its own: it ends by itself."""
    children = [child for child in process.children() if "kernel_build" not in " ".join(child.cmdline())]
    return children + [below for child in children for below in _lasting(child)]


def _role(process: psutil.Process) -> str:
    command = process.cmdline()
    if "pipelines.host" in command:
        return "engine host"
    return "worker" if "gunicorn" in " ".join(command) else "other"


def _usage(process: psutil.Process) -> Usage:
    memory = process.memory_full_info()
    return Usage(memory.rss / 1024, memory.pss / 1024, process.num_fds(), process.num_threads())
