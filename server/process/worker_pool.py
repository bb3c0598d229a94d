"""Starts, replaces and stops the worker processes of a server, in place of the arbiter's own way.

A reload has no gap: old workers leave when as many new ones take requests.  A new worker that does not start
leaves the old ones serving.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from typing import Any

from gunicorn.errors import HaltServer

from server.process.engine_hosts import EngineHosts
from server.process.supervisor import restart_delay_s

RELOAD_S = 90.0
"""After this time a reload ends, with fewer new workers than there shall be, or with the old ones."""

FOLDER_REMOVED = 1
"""Exit code of a server whose folder of temporary files was removed."""


class _Reloaded(Exception):
    """Leaves the arbiter's `reload` where it would wait for old workers to end."""


class WorkerPool:
    """The workers of one arbiter, which calls `manage` at least once a second, `reload` and `reap`.

    A worker is leaving once it was sent SIGTERM; of the others those with an `age` above `_old_age` are new.
    Outside a reload all are new.  At most four times `num_workers` processes exist: new, old, and leaving
    ones of two reloads.
    """

    def __init__(self, arbiter: Any, hosts: EngineHosts, clock: Callable[[], float] = time.monotonic) -> None:
        self._arbiter = arbiter
        self._hosts = hosts
        self._clock = clock
        self._reload, self._reap, self._hang_up = arbiter.reload, arbiter.reap_workers, arbiter.handle_hup
        self._leaving: set[int] = set()
        self._old_age = self._older_age = 0  # of this reload and the one before
        self._deadline_s = 0.0
        self._in_reload = False
        self._reload_again = False
        self._starting: set[int] = set()  # new workers that are not ready
        self._num_failures = 0  # workers in a row that ended before they were ready
        self._spawn_at_s = 0.0

    def install(self) -> None:
        """Take the place of the arbiter's methods."""
        self._arbiter.manage_workers = self.manage
        self._arbiter.reap_workers = self.reap
        self._arbiter.reload = self.reload
        self._arbiter.handle_hup = self.hang_up

    def manage(self) -> None:
        """Spawn workers that are missing, end those that are too many, and look after the engine hosts."""
        self._count_failures()
        self._leaving &= self._arbiter.WORKERS.keys()
        self._look_for_other_versions()
        self._adjust(self._new())
        if self._old():
            self._go_on_with_reload()
        self._starting = {pid for pid, worker in self._new().items() if not worker.state.is_ready}
        if self._reload_again and not self._is_reloading():
            self._reload_again = False
            self._arbiter.SIG_QUEUE.put_nowait(signal.SIGHUP)
        self._look_after_hosts()

    def hang_up(self) -> None:
        """SIGHUP: reload, or once more after the reload in progress; models are looked at immediately."""
        if not self._is_reloading():
            self._hang_up()
            return
        self._arbiter.log.info("A reload is in progress; another one follows it")
        self._reload_again = True
        self._arbiter.cfg.on_reload(self._arbiter)

    def reload(self) -> None:
        """The arbiter's reload: configuration, then new workers; returns without waiting for them."""
        self._older_age, self._old_age = self._old_age, self._arbiter.worker_age
        self._deadline_s = self._clock() + RELOAD_S
        self._in_reload = True
        try:
            self._reload()
        except _Reloaded:
            pass
        finally:
            self._in_reload = False

    def reap(self) -> None:
        """Collect dead children.  Raises HaltServer where no worker starts and none serves."""
        if self._in_reload:
            raise _Reloaded
        with contextlib.suppress(FileNotFoundError):  # `manage` says so; an arbiter that ends comes here too
            self._hosts.poll()  # first: the arbiter waits for any child, and a host's status would be lost
        while True:
            try:
                self._reap()
                return
            except HaltServer as failure:
                if not any(worker.state.is_ready for worker in self._staying().values()):
                    raise
                self._not_started(failure)

    def _look_after_hosts(self) -> None:
        """Raises HaltServer where the server's folder is gone: no engine host or worker could start again."""
        try:
            self._hosts.poll()
        except FileNotFoundError as error:
            removed = f"{error.filename} was removed while the server ran; start it again"
            raise HaltServer(removed, FOLDER_REMOVED) from None

    def _count_failures(self) -> None:
        """Workers that ended before they were ready delay the next attempt, the more the longer."""
        if self._starting - self._leaving - self._arbiter.WORKERS.keys():
            self._num_failures += 1
            self._spawn_at_s = self._clock() + restart_delay_s(self._num_failures)

    def _go_on_with_reload(self) -> None:
        """End the old workers when the new ones are ready; in time, when one is."""
        num_ready = sum(worker.state.is_ready for worker in self._new().values())
        is_late = self._clock() >= self._deadline_s
        if num_ready >= self._arbiter.num_workers or (num_ready and is_late):
            self._end(self._old())
        elif is_late:
            self._cancel_reload(f"no new worker was ready within {RELOAD_S:.0f} s")

    def _not_started(self, failure: HaltServer) -> None:
        """A worker does not start: its code or its settings are wrong."""
        if self._old():
            self._cancel_reload(failure.reason)
        else:
            self._arbiter.log.error("A worker does not start (%s); the others serve on", failure.reason)

    def _cancel_reload(self, reason: str) -> None:
        self._arbiter.log.error("The reload failed (%s); the old workers serve on", reason)
        self._end(self._new())
        self._old_age = self._older_age

    def _adjust(self, new: dict[int, Any]) -> None:
        """Starts as many new workers as there shall be."""
        num_missing = self._arbiter.num_workers - len(new)
        if num_missing < 0:
            by_age = sorted(new, key=lambda pid: new[pid].age)
            self._end(by_age[:-num_missing])
        elif num_missing and self._clock() >= self._spawn_at_s:
            for _ in range(num_missing):
                self._arbiter.spawn_worker()
        elif not num_missing and all(worker.state.is_ready for worker in new.values()):
            self._num_failures = 0

    def _look_for_other_versions(self) -> None:
        """Worker and engine host shall be of one version: the older of the two is replaced."""
        for pid, worker in self._new().items():
            host = self._hosts.with_pid(worker.state.mismatched_host)
            if host is None:
                continue
            if worker.made_at_s > host.spawned_at_s:
                host.restart("a worker runs newer code")
                return
            self._end([pid])

    def _end(self, pids: Any) -> None:
        for pid in pids:
            self._leaving.add(pid)
            self._arbiter.kill_worker(pid, signal.SIGTERM)

    def _is_reloading(self) -> bool:
        return bool(self._old()) or len(self._leaving) > self._arbiter.num_workers

    def _staying(self) -> dict[int, Any]:
        return {pid: worker for pid, worker in self._arbiter.WORKERS.items() if pid not in self._leaving}

    def _new(self) -> dict[int, Any]:
        return {pid: worker for pid, worker in self._staying().items() if worker.age > self._old_age}

    def _old(self) -> dict[int, Any]:
        return {pid: worker for pid, worker in self._staying().items() if worker.age <= self._old_age}
