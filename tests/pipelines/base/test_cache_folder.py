"""Folders of the cache appear whole, also where power is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipelines.base.cache_folder import appearing


@pytest.fixture
def events(monkeypatch):
    """What was written through to the disk, and the rename, in order."""
    calls = []
    fsync, rename = os.fsync, Path.rename

    def noted_fsync(file):
        calls.append(os.readlink(f"/proc/self/fd/{file}"))
        fsync(file)

    def noted_rename(path, target):
        calls.append("renamed")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "rename", noted_rename)
    return calls


def test_all_is_on_the_disk_before_a_folder_has_its_name(tmp_path, events):
    with appearing(tmp_path / "entry") as scratch:
        (scratch / "model").mkdir()
        for name in ("first", "model/second"):
            (scratch / name).write_text(name)
    before = events[: events.index("renamed")]
    written = [str(scratch / name) for name in ("", "first", "model", "model/second")]
    assert sorted(before) == sorted(each.rstrip("/") for each in written)
    assert events[-2:] == ["renamed", str(tmp_path)]
    assert (tmp_path / "entry" / "model" / "second").read_text() == "model/second"


def test_what_fails_has_no_folder(tmp_path, events):
    with pytest.raises(ValueError, match="no"), appearing(tmp_path / "entry"):
        raise ValueError("no")
    assert (events, list(tmp_path.iterdir())) == ([], [])
