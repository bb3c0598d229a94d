"""Measures processor time and memory of a system's processes."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable
from typing import NamedTuple

import psutil

SAMPLE_S = 0.25


class Spent(NamedTuple):
    """Processor seconds of the processes of Braid."""

    host_s: float
    workers_s: float

    def since(self, before: Spent) -> Spent:
        return Spent(self.host_s - before.host_s, self.workers_s - before.workers_s)


def spent(server: subprocess.Popen[str]) -> Spent:
    """Processor seconds of a running Braid so far; its gunicorn master is not counted."""
    host_s = workers_s = 0.0
    for child in psutil.Process(server.pid).children():
        times = child.cpu_times()
        if "pipelines.host" in child.cmdline():
            host_s += times.user + times.system
        else:
            workers_s += times.user + times.system
    return Spent(host_s, workers_s)


def resident_bytes(server: subprocess.Popen[str]) -> tuple[int, int]:
    """Resident memory of a running Braid: of its engine hosts, and of its workers."""
    host = workers = 0
    for child in psutil.Process(server.pid).children():
        if "pipelines.host" in child.cmdline():
            host += child.memory_info().rss
        else:
            workers += child.memory_info().rss
    return host, workers


class Meter:
    """Processor time and memory of a process and its children."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._root = psutil.Process(process.pid)
        self._peak_bytes = 0
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def cpu_s(self) -> float:
        """Processor seconds of all living processes since they started."""
        return self._sum(lambda one: sum(one.cpu_times()[:2]))

    def peak_bytes(self) -> int:
        """The most resident memory since this was last asked."""
        peak, self._peak_bytes = max(self._peak_bytes, self._resident_bytes()), 0
        return peak

    def stop(self) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(SAMPLE_S):
            self._peak_bytes = max(self._peak_bytes, self._resident_bytes())

    def _resident_bytes(self) -> int:
        return int(self._sum(lambda one: one.memory_info().rss))

    def _sum(self, figure: Callable[[psutil.Process], float]) -> float:
        """Sum over the live processes; one may end between listing and reading."""
        total = 0.0
        with contextlib.suppress(psutil.NoSuchProcess):
            for one in (self._root, *self._root.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    total += figure(one)
        return total
