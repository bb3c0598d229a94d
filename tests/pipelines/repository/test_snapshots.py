"""Snapshots of models where the disk has no room."""

import errno

import pytest

from pipelines.repository import snapshots
from pipelines.repository.model_folders import scan
from pipelines.repository.snapshot import take_snapshot
from pipelines.repository.snapshots import Snapshots


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A model, and a disk that takes nothing below `full`."""
    (tmp_path / "models" / "m").mkdir(parents=True)
    (tmp_path / "models" / "m" / "graph.yaml").write_text("version: 1")
    (tmp_path / "memory").mkdir()
    monkeypatch.setattr(snapshots, "MEMORY", tmp_path / "memory")

    def take(source, path, files):
        if (tmp_path / "full") in path.parents:
            raise OSError(fault, "of the disk")
        return take_snapshot(source, path, files)

    fault = errno.ENOSPC
    monkeypatch.setattr(snapshots, "take_snapshot", take)
    (folder_found,) = scan(tmp_path / "models")
    return folder_found


def test_they_are_taken_in_memory_and_leave_nothing(folder, tmp_path):
    taken = Snapshots(tmp_path / "full")
    snapshot = taken.take(folder)
    assert (tmp_path / "memory") in snapshot.path.parents
    assert (snapshot.path / "graph.yaml").read_text() == "version: 1"
    taken.close()
    assert [*(tmp_path / "memory").iterdir()] == []


def test_where_the_disk_has_room_they_are_there(folder, tmp_path):
    taken = Snapshots(tmp_path / "disk")
    assert (tmp_path / "disk") in taken.take(folder).path.parents
    taken.close()
