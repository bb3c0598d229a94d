"""The supervisor alone: commands that die, hang or stay, and a clock that the test turns."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time

import pytest
from patience import PATIENCE_S

from server.process.engine_hosts import EngineHosts
from server.process.host_command import HostPlan
from server.process.private_folder import PrivateFolder, remove_left_over
from server.process.supervisor import EngineSupervisor, restart_delay_s
from server.process.worker_pool import WorkerPool

DIE = "raise SystemExit(3)"
BEAT = "import os, sys, time\nwhile True: os.utime(sys.argv[1]); time.sleep(0.01)"
ONE_BEAT = "import os, sys, time\nos.utime(sys.argv[1]); time.sleep(60)"
STUBBORN = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + ONE_BEAT


class Clock:
    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


class Stage:
    """A supervisor whose hosts are small Python programs; `scripts` are taken in turn, the last for ever."""

    def __init__(self, tmp_path, *scripts, grace_s=5.0):
        self.clock = Clock()
        self.starts: list[int] = []
        self.scripts = scripts
        self.heartbeat = tmp_path / "heartbeat"
        self.supervisor = EngineSupervisor(
            self.command,
            HostPlan("engine host", tmp_path / "engine.sock", self.heartbeat),
            logging.getLogger("test"),
            timeout_s=10,
            grace_s=grace_s,
            clock=self.clock,
        )

    def command(self, number):
        self.starts.append(number)
        script = self.scripts[min(number, len(self.scripts) - 1)]
        return [sys.executable, "-S", "-c", script, str(self.heartbeat)]

    @property
    def process(self):
        return self.supervisor._process

    def wait_for_death(self):
        self.process.wait(PATIENCE_S)

    def wait_for_beat(self):
        deadline_s = time.monotonic() + PATIENCE_S
        before = self.supervisor._heartbeat_ns
        while self.heartbeat.stat().st_mtime_ns == before:
            assert time.monotonic() < deadline_s
            time.sleep(0.005)


@pytest.fixture
def stage(tmp_path):
    stages = []

    def make(*scripts, **settings):
        stages.append(Stage(tmp_path, *scripts, **settings))
        return stages[-1]

    yield make
    for started in stages:
        if started.process is not None:
            started.process.kill()
            started.process.wait()


def test_first_poll_starts_the_host(stage):
    scene = stage(BEAT)
    scene.supervisor.poll()
    scene.supervisor.poll()
    assert scene.starts == [0]


def test_dead_host_is_restarted_at_once_the_first_time(stage):
    scene = stage(DIE, BEAT)
    scene.supervisor.poll()
    scene.wait_for_death()
    scene.supervisor.poll()
    assert scene.starts == [0, 1]


def test_crash_loop_backs_off(stage):
    scene = stage(DIE)
    scene.supervisor.poll()
    waits = []
    for _ in range(4):
        scene.wait_for_death()
        died_at_s = scene.clock.now_s
        scene.supervisor.poll()
        while scene.process is None:
            scene.clock.now_s += 0.5
            scene.supervisor.poll()
        waits.append(scene.clock.now_s - died_at_s)
    assert waits == [0, 1, 2, 4]


def test_delays_are_bounded():
    assert [restart_delay_s(deaths) for deaths in (1, 2, 3, 4, 5, 6, 7, 50)] == [0, 1, 2, 4, 8, 16, 30, 30]


def test_host_that_lived_long_is_restarted_at_once_again(stage):
    scene = stage(DIE)
    for _ in range(2):
        scene.supervisor.poll()
        scene.wait_for_death()
        scene.clock.now_s += 61
        scene.supervisor.poll()
    assert scene.starts == [0, 1, 2]


def test_exit_status_is_logged(stage, caplog):
    scene = stage(DIE)
    scene.supervisor.poll()
    scene.wait_for_death()
    scene.supervisor.poll()
    assert "exit code 3" in caplog.text


def test_signal_that_killed_it_is_logged_by_name(stage, caplog):
    scene = stage(BEAT)
    scene.supervisor.poll()
    os.kill(scene.process.pid, signal.SIGSEGV)
    scene.wait_for_death()
    scene.supervisor.poll()
    assert "SIGSEGV" in caplog.text


def test_beating_host_is_left_alone_however_long(stage):
    scene = stage(BEAT)
    scene.supervisor.poll()
    for _ in range(3):
        scene.wait_for_beat()
        scene.clock.now_s += 9
        scene.supervisor.poll()
    assert scene.process.poll() is None


def test_silent_host_is_aborted(stage, caplog):
    scene = stage(ONE_BEAT, BEAT)
    scene.supervisor.poll()
    scene.wait_for_beat()
    scene.supervisor.poll()
    scene.clock.now_s += 11
    scene.supervisor.poll()
    assert scene.process.wait(PATIENCE_S) == -signal.SIGABRT
    assert "ENGINE TIMEOUT" in caplog.text


def test_stopped_host_that_cannot_abort_is_killed(stage):
    scene = stage(ONE_BEAT, BEAT)
    scene.supervisor.poll()
    scene.wait_for_beat()
    os.kill(scene.process.pid, signal.SIGSTOP)
    scene.supervisor.poll()
    for _ in range(2):
        scene.clock.now_s += 11
        scene.supervisor.poll()
    assert scene.process.wait(PATIENCE_S) == -signal.SIGKILL


def test_host_has_longer_to_its_first_beat(stage):
    scene = stage("import time; time.sleep(60)")
    scene.supervisor.poll()
    scene.clock.now_s += 60
    scene.supervisor.poll()
    assert scene.process.poll() is None
    scene.clock.now_s += 11
    scene.supervisor.poll()
    assert scene.process.wait(PATIENCE_S) == -signal.SIGABRT


def test_signal_before_the_first_beat_is_kept_from_a_host_that_would_die_of_it(stage):
    scene = stage("import time; time.sleep(60)")
    scene.supervisor.poll()
    scene.supervisor.signal(signal.SIGHUP)
    with pytest.raises(Exception, match="timed out"):
        scene.process.wait(0.1)


def test_stop_ends_the_host_and_poll_starts_no_other(stage):
    scene = stage(BEAT)
    scene.supervisor.poll()
    scene.supervisor.stop()
    assert scene.process.returncode == -signal.SIGTERM
    scene.supervisor.poll()
    assert scene.starts == [0]


def test_host_that_does_not_drain_is_killed(stage):
    scene = stage(STUBBORN, grace_s=0.2)
    scene.supervisor.poll()
    scene.wait_for_beat()
    scene.supervisor.stop()
    assert scene.process.returncode == -signal.SIGKILL


def test_exit_status_is_read_before_the_arbiter_reaps_all_children(stage, caplog):
    class Arbiter:
        def reload(self):
            pass

        handle_hup = reload

        def reap_workers(self):
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return

    scene, arbiter = stage(DIE, BEAT), Arbiter()
    WorkerPool(arbiter, EngineHosts([scene.supervisor])).install()
    scene.supervisor.poll()
    pid = scene.process.pid
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    arbiter.reap_workers()
    assert "exit code 3" in caplog.text


TELL = "import os, sys\nprint(os.environ['GLIBC_TUNABLES'], file=open(sys.argv[1] + '.told', 'w'))"


@pytest.mark.parametrize(
    ("set_before", "told"),
    [(None, "glibc.malloc.hugetlb=1"), ("glibc.malloc.check=1", "glibc.malloc.check=1")],
)
def test_host_asks_for_huge_pages_unless_somebody_tuned_it(stage, monkeypatch, set_before, told):
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    if set_before is not None:
        monkeypatch.setenv("GLIBC_TUNABLES", set_before)
    one = stage(TELL)
    one.supervisor.poll()
    one.wait_for_death()
    assert one.heartbeat.with_suffix(".told").read_text().strip() == told


def test_private_folder_is_closed_to_others_and_short(tmp_path, monkeypatch):
    long = tmp_path / ("x" * 90)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    folder = PrivateFolder()
    assert len(str(folder.path / "engine.sock")) <= 100
    assert folder.path.stat().st_mode & 0o777 == 0o700
    folder.remove()
    assert not folder.path.exists()


def test_only_folders_of_dead_servers_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("server.process.private_folder.FALLBACK", str(tmp_path))
    living, dead, other = PrivateFolder(), PrivateFolder(), tmp_path / "braid-models"
    other.mkdir()
    os.close(dead._lock)  # as at the death of its last process
    assert remove_left_over() == [dead.path]
    assert sorted(tmp_path.iterdir()) == sorted([living.path, other])
    living.remove()
