"""All engine hosts of a server: each has a supervisor of its own."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from server.process.supervisor import EngineSupervisor


class EngineHosts:
    def __init__(self, supervisors: Sequence[EngineSupervisor]) -> None:
        self._supervisors = supervisors

    def poll(self) -> None:
        """Look at each once, as `EngineSupervisor.poll`."""
        for supervisor in self._supervisors:
            supervisor.poll()

    def signal(self, number: signal.Signals) -> None:
        for supervisor in self._supervisors:
            supervisor.signal(number)

    def with_pid(self, pid: int) -> EngineSupervisor | None:
        """The supervisor whose host has this pid and serves."""
        return next((each for each in self._supervisors if each.pid is not None and each.pid == pid), None)

    def stop(self) -> None:
        """End all, at the same time.  Waits."""
        for supervisor in self._supervisors:
            supervisor.begin_stop()
        for supervisor in self._supervisors:
            supervisor.stop()
