"""What a worker process reports to its master, and what the server gives to the application in it."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass, field
from typing import Any

from server.process.drain import Drain

LAYOUT = struct.Struct("<qq")
STATE_KEY = "braid.process"
"""Where the lifespan's state holds a `WorkerProcess`."""


class WorkerState:
    """Memory that a master and one worker share: made in the master before the fork."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, LAYOUT.size)

    @property
    def is_ready(self) -> bool:
        """Whether the worker takes requests."""
        return bool(LAYOUT.unpack_from(self._memory)[0])

    @property
    def mismatched_host(self) -> int:
        """The pid of an engine host of another version that the worker has met; 0 for none."""
        return int(LAYOUT.unpack_from(self._memory)[1])

    def set_ready(self) -> None:
        LAYOUT.pack_into(self._memory, 0, 1, self.mismatched_host)

    def set_mismatched_host(self, pid: int) -> None:
        LAYOUT.pack_into(self._memory, 0, self.is_ready, pid)


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """The process that an application runs in."""

    state: WorkerState
    drain: Drain = field(default_factory=Drain)


def process_of(scope: dict[str, Any]) -> WorkerProcess:
    """The process of a lifespan scope; one of its own for an application that no worker runs."""
    process: WorkerProcess | None = scope.get("state", {}).get(STATE_KEY)
    return process or WorkerProcess(WorkerState())
