"""Keeps the engine host alive: a child of the gunicorn master, watched from the arbiter's own loop.

No thread and no model in the master, so forking workers stays safe; the host is exec'd, never forked.
Knows processes, signals and one heartbeat file; knows nothing of what the host computes.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipelines.telemetry import metrics
from server.settings import ROOT, Settings

BOOT_S = 60.0
"""Time that a host has to its first heartbeat, added to the heartbeat's own timeout."""
ABORT_S = 2.0
"""Between SIGABRT, which makes a hung host write its stacks, and SIGKILL."""
STEADY_S = 60.0
"""A host that lived so long did not die of its start: the back-off begins anew."""
LONGEST_DELAY_S = 30.0
HUGE_PAGES = "glibc.malloc.hugetlb=1"
"""GLIBC_TUNABLES of a host, unless it is set already: weights in huge pages are read 2 to 5 % faster."""
MAX_SOCKET_PATH_BYTES = 100
"""A unix socket's path may have 107 bytes on Linux and 103 elsewhere."""


class EngineSupervisor:
    """Starts the host, restarts it when it dies, ends it when it hangs.  The arbiter calls `poll`.

    Restart delays after deaths in a row: 0, 1, 2, 4 … LONGEST_DELAY_S seconds.
    """

    def __init__(
        self,
        command: Callable[[int], list[str]],
        heartbeat: Path,
        log: logging.Logger,
        *,
        timeout_s: float,
        grace_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`command(n)` starts the n-th host, counted from 0; it touches `heartbeat` every turn."""
        self._command = command
        self._heartbeat = heartbeat
        self._log = log
        self._timeout_s = timeout_s
        self._grace_s = grace_s
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._num_spawned = 0
        self._num_deaths = 0
        self._start_at_s = 0.0
        self._spawned_at_s = 0.0
        self._beat_ns = 0  # the heartbeat file's time when we last looked
        self._beat_at_s: float | None = None  # our clock when that time last changed; None before the first
        self._aborted_at_s: float | None = None
        self._stopping = False

    def poll(self) -> None:
        """Look once; start, restart or signal as needed.  Never waits."""
        if self._stopping:
            return
        if self._process is not None:
            self._look_at(self._process)
        if self._process is None and self._clock() >= self._start_at_s:
            self._spawn()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the host, if it lives and answers signals: it does from its first heartbeat."""
        self._silence_s()
        if self._process is not None and self._beat_at_s is not None:
            self._process.send_signal(number)

    def stop(self) -> None:
        """End the host: SIGTERM, then SIGKILL after the grace time.  Waits."""
        self._stopping = True
        process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(self._grace_s)
        except subprocess.TimeoutExpired:
            self._log.error(
                "Engine host (pid: %s) did not drain in %s s, killing it", process.pid, self._grace_s
            )
            process.kill()
            process.wait()
        self._log.info("Engine host stopped")

    def _spawn(self) -> None:
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), environment.get("PYTHONPATH")]))
        environment.setdefault("GLIBC_TUNABLES", HUGE_PAGES)
        self._heartbeat.touch()
        self._beat_ns = self._heartbeat.stat().st_mtime_ns
        self._beat_at_s = self._aborted_at_s = None
        self._spawned_at_s = self._clock()
        self._process = subprocess.Popen(
            self._command(self._num_spawned), env=environment, start_new_session=True
        )
        self._num_spawned += 1
        self._log.info("Spawned engine host (pid: %s)", self._process.pid)

    def _look_at(self, process: subprocess.Popen[bytes]) -> None:
        code = process.poll()
        if code is not None:
            self._died(process.pid, code)
        elif self._silence_s() > (self._timeout_s if self._beat_at_s else self._timeout_s + BOOT_S):
            self._end_hung(process)

    def _died(self, pid: int, code: int) -> None:
        now_s = self._clock()
        lived_s = now_s - self._spawned_at_s
        self._num_deaths = 1 if lived_s > STEADY_S else self._num_deaths + 1
        delay_s = restart_delay_s(self._num_deaths)
        self._log.error(
            "Engine host (pid: %s) died after %.1f s (%s), restart in %.0f s",
            pid,
            lived_s,
            _cause(code),
            delay_s,
        )
        metrics.mark_dead(pid)
        self._process = None
        self._start_at_s = now_s + delay_s

    def _silence_s(self) -> float:
        """Seconds since the heartbeat's time changed, by our clock: the wall clock may jump."""
        beat_ns = self._heartbeat.stat().st_mtime_ns
        if beat_ns != self._beat_ns:
            self._beat_ns, self._beat_at_s = beat_ns, self._clock()
        return self._clock() - (self._beat_at_s or self._spawned_at_s)

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


def start(arbiter: Any, settings: Settings) -> EngineSupervisor | None:
    """Prepare a server's private folder and, unless in-process, start and supervise its engine host.

    Sets BRAID_ENGINE_SOCKET, BRAID_RESPONSES_FILE and PROMETHEUS_MULTIPROC_DIR for every process that is
    started from here on.
    """
    folder = private_folder()
    (folder / "metrics").mkdir()
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder / "metrics")
    if settings.responses_file is None:
        os.environ["BRAID_RESPONSES_FILE"] = str(folder / "responses.sqlite")
    arbiter.braid_folder = folder
    if settings.in_process:
        return None
    socket = folder / "engine.sock"
    os.environ["BRAID_ENGINE_SOCKET"] = str(socket)
    supervisor = EngineSupervisor(
        lambda number: host_command(settings, socket, folder / "heartbeat", with_banner=number == 0),
        folder / "heartbeat",
        arbiter.log,
        timeout_s=settings.engine_timeout_s,
        grace_s=settings.grace_s,
    )
    attach(arbiter, supervisor)
    return supervisor


def stop(arbiter: Any) -> None:
    """The end of a server: its workers are gone, now its host and its folder go."""
    if getattr(arbiter, "braid_engine", None) is not None:
        arbiter.braid_engine.stop()
    shutil.rmtree(arbiter.braid_folder, ignore_errors=True)


def attach(arbiter: Any, supervisor: EngineSupervisor) -> None:
    """Poll from the arbiter's loop.

    `manage_workers` runs every turn, a second at most apart, and at once after SIGCHLD.  `reap_workers`
    waits for any child, so we look first, to learn the host's exit status; and it is what the arbiter calls
    while it reloads or waits for workers to drain.
    """
    manage_workers, reap_workers = arbiter.manage_workers, arbiter.reap_workers

    def manage_and_poll() -> None:
        manage_workers()
        supervisor.poll()

    def poll_and_reap() -> None:
        supervisor.poll()
        reap_workers()

    arbiter.manage_workers, arbiter.reap_workers = manage_and_poll, poll_and_reap
    arbiter.braid_engine = supervisor
    supervisor.poll()


def host_command(settings: Settings, socket: Path, heartbeat: Path, with_banner: bool) -> list[str]:
    """The command line of an engine host.  `-P`: the current folder must not shadow our packages."""
    command = [sys.executable, "-P", "-m", "pipelines.host", "--models", str(settings.models)]
    command += ["--socket", str(socket), "--heartbeat", str(heartbeat), "--parent", str(os.getpid())]
    command += ["--log-level", settings.log_level, "--snapshots", str(socket.with_name("models"))]
    if settings.device:
        command += ["--device", settings.device]
    if with_banner:
        command += ["--url", settings.url]
    if settings.api_keys:
        command += ["--needs-key"]
    return command


def private_folder() -> Path:
    """A new folder for this user alone, its path short enough for a socket in it."""
    folder = tempfile.mkdtemp(prefix="braid-")
    if len(os.fsencode(f"{folder}/engine.sock")) > MAX_SOCKET_PATH_BYTES:
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix="braid-", dir="/tmp")
    return Path(folder)
