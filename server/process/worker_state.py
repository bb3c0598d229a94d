"""What a worker process reports to its master, and what the server gives to the application in it."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass, field
from typing import Any

from server.process.drain import Drain

NUMBER = struct.Struct("<q")
READY, MISMATCHED_HOST, SERVER_ENDS = range(3)
"""Places of the numbers."""
STATE_KEY = "braid.process"
"""Where the lifespan's state holds a `WorkerProcess`."""


class WorkerState:
    """Memory that a master and one worker share: made in the master before the fork."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 3 * NUMBER.size)

    @property
    def is_ready(self) -> bool:
        """Whether the worker takes requests."""
        return bool(self._read(READY))

    @property
    def mismatched_host(self) -> int:
        """The pid of an engine host of another version that the worker has met; 0 for none."""
        return self._read(MISMATCHED_HOST)

    @property
    def server_ends(self) -> bool:
        """Whether the whole server is to end, rather than this worker alone."""
        return bool(self._read(SERVER_ENDS))

    def set_ready(self) -> None:
        self._write(READY, 1)

    def set_mismatched_host(self, pid: int) -> None:
        self._write(MISMATCHED_HOST, pid)

    def set_server_ends(self) -> None:
        self._write(SERVER_ENDS, 1)

    def _read(self, place: int) -> int:
        return int(NUMBER.unpack_from(self._memory, place * NUMBER.size)[0])

    def _write(self, place: int, value: int) -> None:
        NUMBER.pack_into(self._memory, place * NUMBER.size, value)


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """The process that an application runs in."""

    state: WorkerState
    drain: Drain = field(default_factory=Drain)


def process_of(scope: dict[str, Any]) -> WorkerProcess:
    """The process of a lifespan scope; one of its own for an application that no worker runs."""
    process: WorkerProcess | None = scope.get("state", {}).get(STATE_KEY)
    return process or WorkerProcess(WorkerState())
