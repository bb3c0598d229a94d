"""Several workers and one database: one of them has a batch; what a dead one left, another goes on with."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from server.apis.batches.batch_models import Batch, BatchErrors, RequestTotals
from server.apis.batches.batch_table import Result
from server.apis.batches.database import OfflineDatabase, OfflineLimits
from server.apis.batches.files.content_folder import ABANDONED_S, ContentFolder
from server.apis.batches.files.file_table import StoredFile
from server.sqlite.leases import LEASE_S, has_ended, new_owner

LIMITS = OfflineLimits(max_files=9, max_bytes=10_000, max_batches=9)
PRINT_OWNER = "from server.sqlite.leases import new_owner; print(new_owner(), flush=True); input()"
TOTALS = {"request_counts": RequestTotals(total=3, completed=0, failed=0)}


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def workers(tmp_path, clock):
    """Two connections, and a batch that nobody has."""
    made = [OfflineDatabase(tmp_path / "db", LIMITS, clock, clock) for _ in range(2)]
    made[0].add_file(StoredFile("file-1", "", "batch", "in", 5, 1000.0, 5000.0))
    made[0].add_batch(batch(), "", None)
    yield made
    for each in made:
        each.close()


def batch(name="batch_1"):
    return Batch(
        id=name,
        endpoint="/v1/completions",
        input_file_id="file-1",
        completion_window="24h",
        created_at=1000,
        expires_at=9000,
    )


def result(line, succeeded=True):
    return Result(line, succeeded, b'{"line": %d}' % line)


def test_one_worker_has_a_batch(workers):
    one, two = workers
    assert one.claim("one").number == 1
    assert two.claim("two") is None
    one.release("one")
    assert two.claim("two").number == 1


def test_a_batch_of_a_dead_worker_goes_to_another_which_knows_its_results(workers, clock):
    first_worker, two = workers
    first_worker.claim("one")
    assert first_worker.begin(1, "one", TOTALS)
    assert first_worker.add_results(1, "one", [result(1), result(2, succeeded=False)])
    clock.now += LEASE_S - 1
    first_worker.heartbeat("one", [1])
    clock.now += 2
    assert two.claim("two") is None
    clock.now += LEASE_S
    stored = two.claim("two")
    assert (stored.batch.status, two.done_lines(1)) == ("in_progress", {1, 2})
    assert (stored.batch.request_counts.completed, stored.batch.request_counts.failed) == (1, 1)


def test_a_batch_of_a_process_that_has_ended_is_free_at_once(workers):
    first_worker, two = workers
    child = subprocess.Popen(
        [sys.executable, "-c", PRINT_OWNER], stdout=subprocess.PIPE, stdin=subprocess.PIPE
    )
    owner = child.stdout.readline().decode().strip()
    assert first_worker.claim(owner).number == 1
    assert two.claim(new_owner()) is None
    child.communicate()
    assert two.claim(new_owner()).number == 1
    assert first_worker.claim(new_owner()) is None  # its process lives


def test_an_owner_that_does_not_run_a_batch_does_not_keep_it(workers, clock):
    """Its run has failed, and could not give it back."""
    one, two = workers
    one.claim("one")
    clock.now += LEASE_S + 1
    one.heartbeat("one", [])
    assert two.claim("two").number == 1


def test_a_batch_whose_owner_renews_while_another_worker_looks_stays_its_own(workers, clock):
    """The other one had read the clock before."""
    one, two = workers
    one.claim("one")
    clock.now -= 1
    assert two.claim("two") is None


@pytest.mark.parametrize("owner", [None, "", "two", "a b c", f"{os.readlink('/proc/self/ns/pid')} 1 x"])
def test_owners_of_which_nothing_is_known_have_not_ended(owner):
    assert not has_ended(owner)


def test_a_worker_that_lost_a_batch_writes_nothing_more(workers, clock):
    first_worker, two = workers
    first_worker.claim("one")
    first_worker.begin(1, "one", TOTALS)
    clock.now += LEASE_S + 1
    two.claim("two")
    assert first_worker.heartbeat("one", [1]) == {}
    assert not first_worker.add_results(1, "one", [result(1)])
    assert not first_worker.finalize(1, "one", "completed", {})
    assert not first_worker.end(1, "one", [], {})
    assert not first_worker.fail(1, "one", BatchErrors(data=[]))
    assert two.done_lines(1) == set()


def test_the_first_result_of_a_line_counts(workers):
    one, _ = workers
    one.claim("one")
    one.begin(1, "one", TOTALS)
    one.add_results(1, "one", [result(1)])
    one.add_results(1, "one", [result(1, succeeded=False), result(2)])
    assert [(each.line, each.succeeded) for each in one.results(1, 0, 9)] == [(1, True), (2, True)]
    counts = one.batch("batch_1", "").request_counts
    assert (counts.completed, counts.failed, counts.total) == (2, 0, 3)


def test_a_batch_that_is_cancelled_while_it_ends_is_cancelled(workers):
    one, two = workers
    one.claim("one")
    one.begin(1, "one", TOTALS)
    two.cancel("batch_1", "")
    assert one.finalize(1, "one", "completed", {})
    assert one.end(1, "one", [], {})
    ended = two.batch("batch_1", "")
    assert (ended.status, ended.cancelled_at) == ("cancelled", 1000)


def test_its_end_is_one_transaction(workers):
    first_worker, two = workers
    first_worker.claim("one")
    first_worker.begin(1, "one", TOTALS)
    first_worker.add_results(1, "one", [result(1)])
    first_worker.finalize(1, "one", "completed", {})
    file = StoredFile("file-2", "", "batch_output", "out", 12, 1000.0, 5000.0)
    assert first_worker.end(1, "one", [file], {"output_file_id": "file-2"})
    assert two.batch("batch_1", "").output_file_id == "file-2"
    assert two.file("file-2", "") == file
    assert (two.done_lines(1), two.claim("two")) == (set(), None)


def test_files_expire_but_not_under_a_batch(workers, clock):
    one, _ = workers
    clock.now = 6000.0
    assert one.expire() == ([], {"file-1"})
    one.claim("one")
    one.cancel("batch_1", "")
    one.end(1, "one", [], {})
    assert one.expire() == (["file-1"], set())


def test_what_killed_processes_left_on_the_disk_is_swept(tmp_path, monkeypatch):
    folder = ContentFolder(tmp_path)
    folder.open()
    with folder.writing("known") as file:
        file.write(b"x")
    (tmp_path / "content" / "torn.part").write_bytes(b"x")
    folder.sweep({"known"})
    assert len([*(tmp_path / "content").iterdir()]) == 2  # it may be being written
    monkeypatch.setattr("time.time", lambda: 4e9 + ABANDONED_S)
    folder.sweep({"known"})
    assert [path.name for path in (tmp_path / "content").iterdir()] == ["known"]
