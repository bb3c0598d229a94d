"""The database of responses: shared by connections, bounded in number, bytes and age, with leases."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from dataclasses import replace

import pytest

from server.apis.responses.database import ResponseDatabase, StoreLimits
from server.apis.responses.sqlite_tables import StoredResponse
from server.apis.responses.store import ResponseStore
from server.base.settings import Settings
from server.sqlite.leases import LEASE_S

LIMITS = StoreLimits(max_count=3, max_bytes=10_000, max_age_s=100.0)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "responses.sqlite"


@pytest.fixture
def open_store(path, clock):
    opened = []

    def make(limits=LIMITS):
        opened.append(ResponseDatabase(path, limits, clock, clock))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store):
    return open_store()


def stored(name, status="completed", body=b"{}", owner=None):
    return StoredResponse(name, status, body, b"[]", background=owner is not None, owner=owner)


def test_a_response_of_one_worker_is_read_by_another(open_store):
    one, other = open_store(), open_store()
    assert one.add(stored("a", body=b'{"x":1}'))
    assert other.get("a") == stored("a", body=b'{"x":1}')


def test_a_file_of_another_version_is_left_alone(open_store, path):
    open_store().close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(sqlite3.DatabaseError, match="another version"):
        open_store()


def test_a_response_is_its_accounts_alone(store):
    store.add(replace(stored("a"), account="one", item_ids=("msg_1",)))
    store.add(replace(stored("b"), account="two", item_ids=("msg_1",)))
    assert (store.get("a", "one").id, store.get("a", "two"), store.get("a")) == ("a", None, None)
    assert [store.find_by_item("msg_1", account).id for account in ("one", "two")] == ["a", "b"]
    assert store.find_by_item("msg_1", "three") is None
    assert store.is_used("a")
    assert not store.delete("a", "two")
    assert store.delete("a", "one")


TABLES_OF_VERSION_1 = """
CREATE TABLE responses (id TEXT PRIMARY KEY, status TEXT NOT NULL, body BLOB NOT NULL, items BLOB NOT NULL,
    background INTEGER NOT NULL, owner TEXT, beat REAL NOT NULL, made REAL NOT NULL, size INTEGER NOT NULL);
CREATE TABLE item_places (item TEXT PRIMARY KEY, response TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX by_response ON item_places (response);
INSERT INTO responses VALUES ('old', 'completed', x'7b7d', x'5b5d', 0, NULL, 0, 999, 4);
INSERT INTO item_places VALUES ('msg_1', 'old');
PRAGMA user_version = 1;
"""


def test_what_an_earlier_version_stored_is_everybodys(open_store, path):
    db = sqlite3.connect(path)
    db.executescript(TABLES_OF_VERSION_1)
    db.close()
    for store in (open_store(), open_store()):
        assert store.get("old", "one") == store.get("old", "two") == stored("old")
        assert store.find_by_item("msg_1", "one").id == "old"
    assert store.add(replace(stored("new"), account="one", item_ids=("msg_1",)))
    assert store.find_by_item("msg_1", "one").id == "new"


def test_the_error_names_the_file_that_cannot_be_used(tmp_path):
    store = ResponseStore(Settings(responses_file=tmp_path / "nowhere" / "file"))
    with pytest.raises(RuntimeError, match="nowhere"):
        asyncio.run(store.open())


def test_only_the_server_reads_the_file(store, path):
    assert path.stat().st_mode & 0o077 == 0


def test_an_id_is_stored_once(store):
    assert store.add(stored("a", body=b"1"))
    assert not store.add(stored("a", body=b"2"))
    assert store.get("a").body == b"1"


def test_the_oldest_go_when_there_are_too_many(store, clock):
    for name in "abcde":
        clock.now += 1
        store.add(stored(name))
    assert [name for name in "abcde" if store.get(name)] == ["c", "d", "e"]


def test_the_oldest_go_when_they_are_too_large(store, clock):
    for name in "abc":
        clock.now += 1
        store.add(stored(name, body=b"x" * 4000))
    assert [name for name in "abc" if store.get(name)] == ["b", "c"]


def test_events_count_among_the_bytes(store, clock):
    store.add(stored("a", body=b"x" * 4000))
    clock.now += 1
    running = stored("b", "in_progress", owner="me")
    store.add(running)
    store.update("me", replace(running, status="completed", owner=None), [(0, b"x" * 8000)])
    assert store.get("a") is None
    assert store.get("b") is not None


def test_running_responses_are_not_evicted(store, clock):
    for name in "abcde":
        clock.now += 1
        store.add(stored(name, "in_progress", owner="me"))
    assert all(store.get(name) for name in "abcde")


def test_expired_responses_are_deleted(store, clock):
    store.add(stored("a"))
    clock.now += 101
    assert store.get("a") is None
    store.add(stored("b"))
    assert store.delete("a") is False


def test_responses_of_a_dead_owner_are_evicted(store, clock):
    store.add(stored("a", "in_progress", owner="me"))
    clock.now += 101
    store.add(stored("b"))
    assert not store.delete("a")


def test_deleting_takes_the_events_too(store):
    running = stored("a", "in_progress", owner="me")
    store.add(running)
    store.update("me", running, [(0, b"x")])
    assert store.delete("a")
    assert store.events("a", -1) == []
    assert not store.delete("a")


def test_events_are_read_from_where_a_reader_stopped(store):
    running = stored("a", "in_progress", owner="me")
    store.add(running)
    store.update("me", running, [(0, b"a"), (1, b"b")])
    store.update("me", running, [(2, b"c")])
    assert store.events("a", 0) == [(1, b"b"), (2, b"c")]


def test_an_owner_that_lost_a_response_cannot_write(store):
    running = stored("a", "in_progress", owner="me")
    store.add(running)
    assert store.end(running, "cancelled", b'"cancelled"')
    assert not store.update("me", replace(running, status="completed", owner=None), [(0, b"x")])
    assert (store.get("a").status, store.events("a", -1)) == ("cancelled", [])


def test_a_response_that_has_ended_is_not_ended_again(store):
    running = stored("a", "in_progress", owner="me")
    store.add(running)
    store.update("me", replace(running, status="completed", owner=None), [])
    assert not store.end(running, "cancelled", b"{}")
    assert store.get("a").status == "completed"


def test_a_heartbeat_returns_the_responses_still_owned(store):
    for name in "ab":
        store.add(stored(name, "in_progress", owner="me"))
    store.delete("a")
    assert store.heartbeat("me", ["a", "b"]) == {"b"}


def test_a_silent_owner_is_dead(store, clock):
    store.add(stored("a", "in_progress", owner="me"))
    clock.now += LEASE_S - 0.1
    assert not store.is_abandoned("a")
    store.heartbeat("me", ["a"])
    clock.now += LEASE_S - 0.1
    assert not store.is_abandoned("a")
    clock.now += 0.1
    assert store.is_abandoned("a")


def test_an_owner_of_an_earlier_boot_is_dead(store, clock):
    store.add(stored("a", "in_progress", owner="me"))
    clock.now -= 500
    assert store.is_abandoned("a")


def test_an_owner_that_renews_while_another_worker_looks_is_alive(store, clock):
    """The other one had read the clock before."""
    store.add(stored("a", "in_progress", owner="me"))
    clock.now -= 1
    assert not store.is_abandoned("a")


def test_an_item_is_found_by_its_id(store):
    store.add(replace(stored("a"), item_ids=("msg_1",)))
    assert store.find_by_item("msg_1").id == "a"
    store.delete("a")
    assert store.find_by_item("msg_1") is None


def test_workers_that_start_at_once_share_a_new_file(path):
    stores, faults = [], []

    def open_one(i):
        try:
            store = ResponseDatabase(path, StoreLimits(1000, 1 << 20, 100))
            stores.append(store)
            for j in range(20):
                store.add(stored(f"{i}-{j}"))
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=open_one, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert all(stores[0].get(f"{i}-{j}") for i in range(4) for j in range(20))
    for store in stores:
        store.close()
