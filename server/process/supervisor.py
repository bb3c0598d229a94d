"""Keeps the engine host alive: a child of the gunicorn master, watched from the arbiter's own loop.

The master has no thread and no model, so forking workers is safe; the host is exec'd, never forked.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial

from pipelines.base.bounded_processes import child_environment
from pipelines.telemetry import registry
from server.process.host_command import HostPlan

BOOT_S = 60.0
"""Time that a host has to its first heartbeat, added to the heartbeat's own timeout."""
ABORT_S = 2.0
"""The seconds between SIGABRT, which makes a hung host write its stacks, and SIGKILL."""
STEADY_S = 60.0
"""A host that lived longer did not die of its start: the next one starts without delay."""
LONGEST_DELAY_S = 30.0
HUGE_PAGES = "glibc.malloc.hugetlb=1"
"""GLIBC_TUNABLES of a host, unless it is set already: weights in huge pages are read 2 to 5 % faster."""


class EngineSupervisor:
    """Starts the host, restarts it when it dies, ends it when it hangs.  The worker pool calls `poll`.

    Restart delays after deaths in a row: 0, 1, 2, 4 … LONGEST_DELAY_S seconds.
    """

    def __init__(
        self,
        command: Callable[[int], list[str]],
        plan: HostPlan,
        log: logging.Logger,
        *,
        timeout_s: float,
        grace_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`command(n)` starts the n-th host, counted from 0; the host touches its heartbeat's file."""
        self._name = plan.name
        self._confine = None if plan.cpus is None else partial(os.sched_setaffinity, 0, plan.cpus)
        self._command = command
        self._heartbeat = plan.heartbeat
        self._log = log
        self._timeout_s = timeout_s
        self._grace_s = grace_s
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._num_spawned = 0
        self._num_deaths = 0
        self._start_at_s = 0.0
        self.spawned_at_s = 0.0
        self._heartbeat_ns = 0  # the heartbeat file's time at the last look
        self._heartbeat_at_s: float | None = None  # our clock when that time last changed; None before that
        self._aborted_at_s: float | None = None
        self._kill_at_s: float | None = None  # of a host that ends for a restart
        self._stop_at_s: float | None = None  # when a host is killed that is to end for good

    @property
    def pid(self) -> int | None:
        """The host that serves; None between two."""
        return self._process.pid if self._process is not None and self._kill_at_s is None else None

    def poll(self) -> None:
        """Look once; start, restart or signal as needed.  Never waits."""
        if self._stop_at_s is not None:
            return
        if self._process is not None:
            self._look_at(self._process)
        if self._process is None and self._clock() >= self._start_at_s:
            self._spawn()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the host, if it lives and answers signals: it does from its first heartbeat."""
        self._silence_s()
        if self._process is not None and self._heartbeat_at_s is not None:
            self._process.send_signal(number)

    def restart(self, reason: str) -> None:
        """Have the host finish what runs and end, at most `grace_s` from now, and start another one."""
        if self.pid is not None and self._process is not None:
            self._log.warning("%s (pid: %s) is restarted: %s", self._title, self.pid, reason)
            self._process.send_signal(signal.SIGTERM)
            self._kill_at_s = self._clock() + self._grace_s

    def begin_stop(self) -> None:
        """Have the host finish what runs and end, and start no other one."""
        if self._stop_at_s is None:
            self._stop_at_s = self._clock() + self._grace_s
            if self._process is not None:
                self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """End the host: SIGTERM, then SIGKILL after the grace time.  Waits."""
        self.begin_stop()
        process = self._process
        if process is None:
            return
        try:
            process.wait(max(0.0, (self._stop_at_s or 0.0) - self._clock()))
        except subprocess.TimeoutExpired:
            self._log.error(
                "%s (pid: %s) did not drain in %s s, killing it", self._title, process.pid, self._grace_s
            )
            process.kill()
            process.wait()
        self._log.info("%s stopped", self._title)

    @property
    def _title(self) -> str:
        return self._name[0].upper() + self._name[1:]

    def _spawn(self) -> None:
        environment = child_environment()
        environment.setdefault("GLIBC_TUNABLES", HUGE_PAGES)
        self._heartbeat.touch()
        self._heartbeat_ns = self._heartbeat.stat().st_mtime_ns
        self._heartbeat_at_s = self._aborted_at_s = None
        self.spawned_at_s = self._clock()
        self._process = subprocess.Popen(
            self._command(self._num_spawned),
            env=environment,
            start_new_session=True,
            preexec_fn=self._confine,  # before the host's libraries count the cores
        )
        self._num_spawned += 1
        self._log.info("Spawned %s (pid: %s)", self._name, self._process.pid)

    def _look_at(self, process: subprocess.Popen[bytes]) -> None:
        code = process.poll()
        if code is not None and self._kill_at_s is not None:
            self._ended(process.pid)
        elif code is not None:
            self._died(process.pid, code)
        elif self._kill_at_s is not None and self._clock() >= self._kill_at_s:
            process.kill()
        elif self._silence_s() > (self._timeout_s if self._heartbeat_at_s else self._timeout_s + BOOT_S):
            self._end_hung(process)

    def _ended(self, pid: int) -> None:
        """A host that was to be restarted has ended."""
        registry.mark_dead(pid)
        self._process, self._kill_at_s, self._start_at_s = None, None, 0.0

    def _died(self, pid: int, code: int) -> None:
        now_s = self._clock()
        lived_s = now_s - self.spawned_at_s
        self._num_deaths = 1 if lived_s > STEADY_S else self._num_deaths + 1
        delay_s = restart_delay_s(self._num_deaths)
        self._log.error(
            "%s (pid: %s) died after %.1f s (%s), restart in %.0f s",
            self._title,
            pid,
            lived_s,
            _cause(code),
            delay_s,
        )
        registry.mark_dead(pid)
        self._process = None
        self._start_at_s = now_s + delay_s

    def _silence_s(self) -> float:
        """Seconds since the heartbeat's time changed, by our clock: the wall clock may jump."""
        heartbeat_ns = self._heartbeat.stat().st_mtime_ns
        if heartbeat_ns != self._heartbeat_ns:
            self._heartbeat_ns, self._heartbeat_at_s = heartbeat_ns, self._clock()
        return self._clock() - (self._heartbeat_at_s or self.spawned_at_s)

    def _end_hung(self, process: subprocess.Popen[bytes]) -> None:
        now_s = self._clock()
        if self._aborted_at_s is None:
            self._aborted_at_s = now_s
            self._log.critical(
                "ENGINE TIMEOUT (pid: %s, no heartbeat for %.1f s)", process.pid, self._silence_s()
            )
            process.send_signal(signal.SIGABRT)
        elif now_s - self._aborted_at_s >= ABORT_S:
            process.kill()


def restart_delay_s(num_deaths: int) -> float:
    """How long to wait after the n-th death in a row, n from 1."""
    return 0.0 if num_deaths <= 1 else min(2.0 ** (num_deaths - 2), LONGEST_DELAY_S)


def _cause(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
