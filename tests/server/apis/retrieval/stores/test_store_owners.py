"""Several workers and one database of vector stores: leases, tries, shares, expiry, what clients change meanwhile."""

from __future__ import annotations

import pytest

from pipelines.base.errors import Overloaded, RequestError
from server.apis.retrieval.stores.database import NoStore, StoreDatabase, VectorStoreLimits
from server.apis.retrieval.stores.rows import NewStoreFile, StoreRow
from server.apis.retrieval.stores.work_table import MAX_TRIES
from server.sqlite.leases import LEASE_S
from server.sqlite.pages import ListPage

DAY_S = 86_400.0


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
    """Two connections, and a store with the files a and b."""
    limits = VectorStoreLimits(max_stores=10, max_bytes=1000, share=0.5)
    databases = [StoreDatabase(tmp_path / "db", limits, clock, clock) for _ in range(2)]
    databases[0].add(store("vs_1"), files("a", "b"))
    yield databases
    for database in databases:
        database.close()


def store(name, account="", days=None):
    return StoreRow(0, name, account, "", None, "m", None, days, 1000.0, 1000.0, expired=False, usage=0)


def files(*names, **attributes):
    return [NewStoreFile(name, f"{name}.txt", attributes, chunks=None) for name in names]


def taken(database, number=1):
    return [file.id for file in database.work.begin(number).added]


def end(database, work, **errors):
    database.work.finish(1, work, {file.id: 100 for file in work.added}, errors)


def test_one_worker_has_a_store_until_it_is_dead(workers, clock):
    first, second = workers
    assert first.work.claim("x").id == "vs_1"
    assert second.work.claim("y") is None
    clock.now += LEASE_S - 1
    assert first.work.heartbeat(1, "x")
    clock.now += LEASE_S - 1
    assert second.work.claim("y") is None
    clock.now += 2
    assert second.work.claim("y").id == "vs_1"
    assert not first.work.heartbeat(1, "x")
    first.work.release(1, "x")  # of a store that it has lost
    assert first.work.claim("x") is None


def test_a_store_that_failed_waits(workers, clock):
    first, second = workers
    first.work.claim("x")
    first.work.release(1, "x", 5.0)
    assert second.work.claim("y") is None
    clock.now += 6
    assert second.work.claim("y").id == "vs_1"


def test_files_are_tried_together_then_alone_then_given_up(workers):
    database = workers[0]
    assert [taken(database) for _ in range(MAX_TRIES)] == [["a", "b"], ["a", "b"], ["a"], ["a"], ["a"]]
    assert taken(database) == ["b"]
    failed = database.file("vs_1", "", "a")[1]
    assert (failed.status, failed.error[0]) == ("failed", "server_error")


def test_work_of_a_worker_that_ends_is_no_try(workers):
    database = workers[0]
    for _ in range(2 * MAX_TRIES):
        database.work.give_back(database.work.begin(1))
    assert taken(database) == ["a", "b"]


def test_what_clients_change_during_an_update_is_work_again(workers):
    database = workers[0]
    work = database.work.begin(1)
    database.remove_file("vs_1", "", "a")
    database.set_attributes("vs_1", "", "b", {"new": 1})
    end(database, work)
    again = database.work.begin(1)
    assert (again.added, again.removed) == ([], ["a"])
    assert [(file.id, file.attributes) for file in again.described] == [("b", {"new": 1})]
    assert database.use("vs_1", "")[1] == ["a"]
    end(database, again)
    assert database.use("vs_1", "")[1] == []
    assert database.work.claim("x") is None


def test_a_file_that_is_added_anew_is_indexed_anew(workers):
    database = workers[0]
    work = database.work.begin(1)
    database.remove_file("vs_1", "", "a")
    database.put("vs_1", "", files("a", new=True))
    end(database, work, b=("invalid_file", "no"))
    assert database.use("vs_1", "")[1] == []
    assert [(file.id, file.attributes) for file in database.work.begin(1).added] == [("a", {"new": True})]
    assert database.file("vs_1", "", "b")[1].error == ("invalid_file", "no")


def test_work_is_wanted_while_a_client_waits_for_a_file_of_it(workers):
    database, other = workers
    work = database.work.begin(1)
    other.remove_file("vs_1", "", "a")
    assert database.work.is_wanted(work)
    other.put("vs_1", "", files("b"))  # added anew: this update is of the file before
    assert not database.work.is_wanted(work)
    again = database.work.begin(1)
    assert database.work.is_wanted(again)
    other.delete("vs_1", "")
    assert not database.work.is_wanted(again)


def test_a_cancelled_batch_leaves_nothing_in_the_index(workers):
    database = workers[0]
    end(database, database.work.begin(1))
    _, batch = database.put("vs_1", "", files("c", "d"), in_batch=True)
    work = database.work.begin(1)
    database.cancel_batch("vs_1", "", batch)
    end(database, work)
    assert database.counted_batch("vs_1", "", batch)[2] == {"cancelled": 2}
    assert database.work.begin(1).removed == ["c", "d"]
    assert database.counts(1) == {"completed": 2, "cancelled": 2}
    with pytest.raises(RequestError):
        database.cancel_batch("vs_1", "", batch)


def test_another_account_sees_nothing(workers):
    database = workers[0]
    for call in (database.store, database.counted, database.delete, database.use):
        with pytest.raises(NoStore):
            call("vs_1", "other")
    database.remove_everywhere("a", "other")
    assert database.stores("other", ListPage(10)) == []
    assert database.counts(1) == {"in_progress": 2}


def test_a_key_has_its_share_of_stores_and_bytes(workers):
    database = workers[0]
    for i in range(2, 6):
        database.add(store(f"vs_{i}"), [])
    with pytest.raises(Overloaded):
        database.add(store("vs_6"), [])
    database.add(store("vs_7", "other"), [])
    work = database.work.begin(1)
    database.work.finish(1, work, dict.fromkeys("ab", 300), {})
    with pytest.raises(Overloaded):
        database.put("vs_1", "", files("c"))
    database.put("vs_7", "other", files("c"))


def test_a_store_expires_after_its_days_without_use(workers, clock):
    database = workers[0]
    database.add(store("vs_2", days=1), files("c"))
    clock.now += DAY_S - 1
    database.use("vs_2", "")
    clock.now += DAY_S - 1
    assert database.work.expire() == {"vs_1", "vs_2"}
    clock.now += 2
    assert database.work.expire() == {"vs_1"}
    assert database.store("vs_2", "").expired
    assert database.counts(2) == {}
    with pytest.raises(RequestError):
        database.use("vs_2", "")
    with pytest.raises(RequestError):
        database.put("vs_2", "", files("d"))
