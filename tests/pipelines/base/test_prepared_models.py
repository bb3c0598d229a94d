"""The store of prepared models: bounded, whole entries only."""

from __future__ import annotations

import errno
import os

import pytest

from pipelines.base.cache_folder import unfinished
from pipelines.base.prepared_models import FACTS, PreparedModels


@pytest.fixture
def store(tmp_path):
    return PreparedModels(100_000, tmp_path)


def names(store):
    return sorted(entry.name for entry in store.folder.iterdir())


def test_what_is_stored_is_read(store):
    store.store("one", {"a": 1}, {"graph": b"xml", "rest": b""})
    entry = store.read("one")
    assert entry.facts == {"a": 1}
    assert (entry.folder / "graph").read_bytes() == b"xml"
    assert store.read("two") is None


def test_entries_that_were_used_least_recently_leave_first(store):
    for age, name in enumerate(["a", "b", "c"]):
        store.store(name, {}, {"graph": bytes(30_000)})
        os.utime(store.folder / name, (age, age))
    store.read("a")
    store.store("d", {}, {"graph": bytes(30_000)})
    assert names(store) == ["a", "c", "d"]


def test_an_entry_that_is_larger_than_the_bound_is_not_stored(store):
    store.store("small", {}, {"graph": b"xml"})
    store.store("large", {}, {"graph": bytes(200_000)})
    assert names(store) == ["small"]


def test_what_a_killed_process_left_is_removed_and_what_another_writes_stays(store):
    store.folder.mkdir()
    (
        store.folder / f".unfinished-{os.getpid()}-x"
    ).mkdir()  # of a process that had this number in its container
    with unfinished(store.folder) as written:
        store.store("one", {}, {"graph": b"xml"})
        assert names(store) == [written.name, "one"]


def test_facts_that_changed_are_not_believed(store, caplog):
    store.store("one", {"first": "abc"}, {})
    facts = store.folder / "one" / FACTS
    facts.write_text(facts.read_text().replace("abc", "abd"))
    assert store.read("one") is None
    assert "one is torn" in caplog.text
    assert names(store) == []


@pytest.mark.parametrize("name", ["file", 300 * "x"], ids=["written to", "looked into"])
def test_a_folder_that_cannot_be_used_is_not(tmp_path, caplog, name):
    (tmp_path / "file").write_text("")
    store = PreparedModels(1000, tmp_path / name)
    store.store("one", {}, {"graph": b"xml"})
    assert store.read("one") is None
    assert "cannot be stored" in caplog.text


def test_entries_of_a_folder_that_cannot_be_written_to_are_read(store, monkeypatch, caplog):
    """As in a container with a read-only file system, whose image holds the cache."""

    def refused(*arguments, **options):
        raise OSError(errno.EROFS, "Read-only file system")

    store.store("one", {"a": 1}, {"graph": b"xml"})
    for name in ("utime", "unlink", "rmdir", "mkdir"):
        monkeypatch.setattr(os, name, refused)
    assert store.read("one") == (store.folder / "one", {"a": 1})
    assert not caplog.text


def test_scratch_is_gone_after_use_and_not_given_without_space(store, caplog):
    with store.scratch(1) as folder:
        (folder / "file").write_bytes(b"x")
    assert names(store) == []
    with store.scratch(1 << 60) as folder:
        assert folder is None
    assert names(store) == []
    assert "MB are not free" in caplog.text


def test_scratch_is_not_given_where_nothing_can_be_written(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    with PreparedModels(1000, tmp_path / "file").scratch(1) as folder:
        assert folder is None
    assert "each start prepares" in caplog.text
