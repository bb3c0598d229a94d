"""The store: shared by connections, bounded in number, bytes and age, and aware of the dead."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from dataclasses import replace

import pytest

from server.responses.store import LEASE_S, Limits, Store
from server.responses.stored import ResponseStorage
from server.responses.tables import Kept
from server.settings import Settings

LIMITS = Limits(max_count=3, max_bytes=10_000, max_age_s=100.0)


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
        opened.append(Store(path, limits, clock, clock))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store):
    return open_store()


def kept(name, status="completed", body=b"{}", owner=None):
    return Kept(name, status, body, b"[]", background=owner is not None, owner=owner)


def test_what_one_worker_keeps_another_reads(open_store):
    one, other = open_store(), open_store()
    assert one.add(kept("a", body=b'{"x":1}'))
    assert other.get("a") == kept("a", body=b'{"x":1}')


def test_a_file_of_another_version_is_left_alone(open_store, path):
    open_store().close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(sqlite3.DatabaseError, match="another version"):
        open_store()


def test_a_server_says_which_file_it_cannot_use(tmp_path):
    keeper = ResponseStorage(Settings(responses_file=tmp_path / "nowhere" / "file"))
    with pytest.raises(RuntimeError, match="nowhere"):
        asyncio.run(keeper.open())


def test_only_the_server_reads_the_file(store, path):
    assert path.stat().st_mode & 0o077 == 0


def test_an_id_is_kept_once(store):
    assert store.add(kept("a", body=b"1"))
    assert not store.add(kept("a", body=b"2"))
    assert store.get("a").body == b"1"


def test_the_oldest_go_when_there_are_too_many(store, clock):
    for name in "abcde":
        clock.now += 1
        store.add(kept(name))
    assert [name for name in "abcde" if store.get(name)] == ["c", "d", "e"]


def test_the_oldest_go_when_they_are_too_large(store, clock):
    for name in "abc":
        clock.now += 1
        store.add(kept(name, body=b"x" * 4000))
    assert [name for name in "abc" if store.get(name)] == ["b", "c"]


def test_events_count_among_the_bytes(store, clock):
    store.add(kept("a", body=b"x" * 4000))
    clock.now += 1
    running = kept("b", "in_progress", owner="me")
    store.add(running)
    store.go_on("me", replace(running, status="completed", owner=None), [(0, b"x" * 8000)])
    assert store.get("a") is None
    assert store.get("b") is not None


def test_what_is_worked_on_stays(store, clock):
    for name in "abcde":
        clock.now += 1
        store.add(kept(name, "in_progress", owner="me"))
    assert all(store.get(name) for name in "abcde")


def test_what_is_too_old_is_gone(store, clock):
    store.add(kept("a"))
    clock.now += 101
    assert store.get("a") is None
    store.add(kept("b"))
    assert store.delete("a") is False


def test_what_a_dead_owner_left_does_not_stay_for_ever(store, clock):
    store.add(kept("a", "in_progress", owner="me"))
    clock.now += 101
    store.add(kept("b"))
    assert not store.delete("a")


def test_deleting_takes_the_events_too(store):
    running = kept("a", "in_progress", owner="me")
    store.add(running)
    store.go_on("me", running, [(0, b"x")])
    assert store.delete("a")
    assert store.events("a", -1) == []
    assert not store.delete("a")


def test_events_are_read_from_where_a_reader_stopped(store):
    running = kept("a", "in_progress", owner="me")
    store.add(running)
    store.go_on("me", running, [(0, b"a"), (1, b"b")])
    store.go_on("me", running, [(2, b"c")])
    assert store.events("a", 0) == [(1, b"b"), (2, b"c")]


def test_who_lost_a_response_writes_no_more(store):
    running = kept("a", "in_progress", owner="me")
    store.add(running)
    assert store.take(running, "cancelled", b'"cancelled"')
    assert not store.go_on("me", replace(running, status="completed", owner=None), [(0, b"x")])
    assert (store.get("a").status, store.events("a", -1)) == ("cancelled", [])


def test_what_ended_meanwhile_is_not_taken(store):
    running = kept("a", "in_progress", owner="me")
    store.add(running)
    store.go_on("me", replace(running, status="completed", owner=None), [])
    assert not store.take(running, "cancelled", b"{}")
    assert store.get("a").status == "completed"


def test_an_owner_hears_what_is_still_its_own(store):
    for name in "ab":
        store.add(kept(name, "in_progress", owner="me"))
    store.delete("a")
    assert store.beat("me", ["a", "b"]) == {"b"}


def test_a_silent_owner_is_dead(store, clock):
    store.add(kept("a", "in_progress", owner="me"))
    clock.now += LEASE_S - 0.1
    assert not store.is_abandoned("a")
    store.beat("me", ["a"])
    clock.now += LEASE_S - 0.1
    assert not store.is_abandoned("a")
    clock.now += 0.1
    assert store.is_abandoned("a")


def test_an_owner_of_an_earlier_boot_is_dead(store, clock):
    store.add(kept("a", "in_progress", owner="me"))
    clock.now -= 500
    assert store.is_abandoned("a")


def test_an_item_is_found_by_its_id(store):
    store.add(replace(kept("a"), item_ids=("msg_1",)))
    assert store.holder("msg_1").id == "a"
    store.delete("a")
    assert store.holder("msg_1") is None


def test_workers_that_start_at_once_share_a_new_file(path):
    stores, faults = [], []

    def open_one(i):
        try:
            store = Store(path, Limits(1000, 1 << 20, 100))
            stores.append(store)
            for j in range(20):
                store.add(kept(f"{i}-{j}"))
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
