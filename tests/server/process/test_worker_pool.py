"""Which workers are started and ended, with an arbiter of made-up processes and a clock that the test turns."""

from __future__ import annotations

import logging
import queue
import signal
from types import SimpleNamespace

import pytest
from gunicorn.errors import HaltServer

from server.process.engine_hosts import EngineHosts
from server.process.worker_pool import RELOAD_S, WorkerPool
from server.process.worker_state import WorkerState


class Supervisor:
    """Of a host whose pid and start the test sets."""

    def __init__(self):
        self.pid, self.spawned_at_s = 900, 0.0
        self.restarts = []

    def poll(self):
        pass

    def restart(self, reason):
        self.restarts.append(reason)
        self.pid = None


class Arbiter:
    """Spawns workers that are ready when the test says so, and reaps those that the test ends."""

    def __init__(self, num_workers=2):
        self.num_workers, self.worker_age = num_workers, 0
        self.WORKERS, self.SIG_QUEUE = {}, queue.SimpleQueue()
        self.log = logging.getLogger("test")
        self.killed, self.ended, self.num_rescans, self.now_s = [], [], 0, 1000.0
        self.cfg = SimpleNamespace(on_reload=self._rescan)

    def _rescan(self, arbiter):
        self.num_rescans += 1

    def spawn_worker(self):
        self.worker_age += 1
        worker = SimpleNamespace(age=self.worker_age, state=WorkerState(), made_at_s=self.now_s)
        self.WORKERS[100 + self.worker_age] = worker

    def kill_worker(self, pid, number):
        assert number == signal.SIGTERM
        self.killed.append(pid)

    def reload(self):
        """As gunicorn's: its last lines wait for old workers."""
        self.cfg.on_reload(self)
        for _ in range(self.num_workers):
            self.spawn_worker()
        self.manage_workers()
        self.reap_workers()
        raise AssertionError("waited for old workers")

    def handle_hup(self):
        self.reload()

    def reap_workers(self):
        while self.ended:
            pid, failure = self.ended.pop()
            del self.WORKERS[pid]
            if failure is not None:
                raise HaltServer(failure, 3)

    # What a test does

    def ready(self, *pids):
        for pid in pids:
            self.WORKERS[pid].state.set_ready()
        self.manage_workers()

    def end(self, *pids, failure=None):
        self.ended += [(pid, failure) for pid in pids]
        self.reap_workers()
        self.manage_workers()


@pytest.fixture
def arbiter():
    made = Arbiter()
    made.supervisor = Supervisor()
    WorkerPool(made, EngineHosts([made.supervisor]), clock=lambda: made.now_s).install()
    made.manage_workers()
    made.ready(101, 102)
    return made


def test_missing_workers_are_started(arbiter):
    assert sorted(arbiter.WORKERS) == [101, 102]
    arbiter.end(101)
    assert sorted(arbiter.WORKERS) == [102, 103]


def test_surplus_workers_are_ended_the_oldest_first(arbiter):
    arbiter.num_workers = 1
    arbiter.manage_workers()
    arbiter.manage_workers()
    assert arbiter.killed == [101]


def test_old_workers_leave_when_all_new_ones_are_ready(arbiter):
    arbiter.handle_hup()
    assert (sorted(arbiter.WORKERS), arbiter.killed) == ([101, 102, 103, 104], [])
    arbiter.ready(103)
    assert arbiter.killed == []
    arbiter.ready(104)
    assert arbiter.killed == [101, 102]
    arbiter.manage_workers()
    assert arbiter.killed == [101, 102]  # once each


def test_a_new_worker_that_dies_is_started_again_and_the_old_ones_wait(arbiter):
    arbiter.handle_hup()
    arbiter.end(103)
    assert (sorted(arbiter.WORKERS), arbiter.killed) == ([101, 102, 104, 105], [])
    arbiter.ready(104, 105)
    assert arbiter.killed == [101, 102]


def test_an_old_worker_that_dies_meanwhile_is_not_replaced(arbiter):
    arbiter.handle_hup()
    arbiter.end(101)
    assert sorted(arbiter.WORKERS) == [102, 103, 104]


def test_workers_that_die_at_once_are_started_ever_more_rarely(arbiter):
    arbiter.end(102)
    for pid, delay_s in ((103, 0), (104, 1), (105, 2), (106, 4)):
        arbiter.end(pid)
        if delay_s:
            assert sorted(arbiter.WORKERS) == [101]
            arbiter.now_s += delay_s - 0.1
            arbiter.manage_workers()
            assert sorted(arbiter.WORKERS) == [101]
            arbiter.now_s += 0.1
            arbiter.manage_workers()
        assert sorted(arbiter.WORKERS) == [101, pid + 1]
    arbiter.ready(107)
    arbiter.end(107)
    assert sorted(arbiter.WORKERS) == [101, 108]


def test_new_code_that_does_not_start_leaves_the_old_workers_serving(arbiter, caplog):
    arbiter.handle_hup()
    arbiter.end(103, 104, failure="App failed to load.")
    assert "The reload failed (App failed to load.)" in caplog.text
    arbiter.manage_workers()
    assert sorted(arbiter.WORKERS) == [101, 102]
    assert not {101, 102} & set(arbiter.killed)


def test_other_new_workers_end_with_a_reload_that_failed(arbiter):
    arbiter.handle_hup()
    arbiter.end(103, failure="App failed to load.")
    assert arbiter.killed == [104]
    arbiter.end(104)
    assert sorted(arbiter.WORKERS) == [101, 102]


def test_a_server_none_of_whose_workers_starts_ends():
    arbiter = Arbiter()
    WorkerPool(arbiter, Supervisor(), clock=lambda: arbiter.now_s).install()
    arbiter.manage_workers()
    with pytest.raises(HaltServer):
        arbiter.end(101, failure="Worker failed to boot.")


def test_one_ready_worker_is_enough_in_the_end_and_none_is_not(arbiter, caplog):
    arbiter.handle_hup()
    arbiter.now_s += RELOAD_S
    arbiter.manage_workers()
    assert "no new worker was ready" in caplog.text
    assert arbiter.killed == [103, 104]
    arbiter.end(103, 104)
    arbiter.handle_hup()
    arbiter.ready(105)
    arbiter.now_s += RELOAD_S
    arbiter.manage_workers()
    assert arbiter.killed == [103, 104, 101, 102]


def test_reloads_follow_one_another_and_models_are_looked_at_each_time(arbiter):
    for _ in range(5):
        arbiter.handle_hup()
    assert sorted(arbiter.WORKERS) == [101, 102, 103, 104]
    assert arbiter.num_rescans == 5
    arbiter.ready(103, 104)
    assert arbiter.SIG_QUEUE.get_nowait() == signal.SIGHUP
    assert arbiter.SIG_QUEUE.empty()


def test_workers_that_drain_do_not_pile_up(arbiter):
    for _ in range(9):  # none that was told to leave ends
        arbiter.handle_hup()
        newest = sorted(arbiter.WORKERS)[-2:]
        arbiter.ready(*newest)
    assert len(arbiter.WORKERS) <= 8
    arbiter.end(*arbiter.killed)
    assert len(arbiter.WORKERS) == 2
    assert arbiter.SIG_QUEUE.get_nowait() == signal.SIGHUP


def test_a_worker_of_newer_code_has_the_host_restarted(arbiter):
    arbiter.now_s += 5
    arbiter.end(101)
    arbiter.WORKERS[103].state.set_mismatched_host(900)
    arbiter.manage_workers()
    arbiter.manage_workers()
    assert len(arbiter.supervisor.restarts) == 1
    assert arbiter.killed == []


def test_a_worker_older_than_the_host_is_replaced(arbiter):
    arbiter.supervisor.pid, arbiter.supervisor.spawned_at_s = 901, arbiter.now_s + 5
    arbiter.WORKERS[101].state.set_mismatched_host(901)
    arbiter.WORKERS[102].state.set_mismatched_host(900)  # of the host before
    arbiter.manage_workers()
    assert (arbiter.killed, arbiter.supervisor.restarts) == ([101], [])
    arbiter.manage_workers()
    assert sorted(arbiter.WORKERS) == [101, 102, 103]


def test_a_server_whose_folder_is_removed_ends_with_a_sentence():
    """No host or worker could start in it again."""

    class Removed(Supervisor):
        def poll(self):
            raise FileNotFoundError(2, "No such file or directory", "/tmp/braid-1/heartbeat")

    pool = WorkerPool(Arbiter(), EngineHosts([Removed()]))
    with pytest.raises(HaltServer) as caught:
        pool.manage()
    assert caught.value.exit_status == 1
    assert "/tmp/braid-1/heartbeat was removed" in caught.value.reason
    pool.reap()  # as the arbiter does while it ends
