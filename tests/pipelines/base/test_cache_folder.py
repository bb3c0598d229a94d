"""Folders of the cache appear whole, also where power is lost."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE_S

from pipelines.base import cache_folder
from pipelines.base.cache_folder import appearing, remove_left, unfinished


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


def test_a_folder_that_is_removed_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    """Another process removes it, which takes it for one that a killed process left."""
    lock, removed = fcntl.flock, []

    def slow(opened, how):
        if not removed:
            removed.append(os.readlink(f"/proc/self/fd/{opened}"))
            remove_left(tmp_path.iterdir())
        lock(opened, how)

    monkeypatch.setattr(cache_folder.fcntl, "flock", slow)
    with unfinished(tmp_path) as folder:
        assert folder.is_dir()
        assert str(folder) not in removed
        remove_left(tmp_path.iterdir())
        assert folder.is_dir()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_has_left_is_removed_whatever_number_it_had(tmp_path):
    code = """
import os, sys
from pathlib import Path
from pipelines.base.cache_folder import unfinished
with unfinished(Path(sys.argv[1])) as folder:
    print(flush=True)
    sys.stdin.read()
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], **pipes) as process:
        assert process.stdout.readline()
        remove_left(tmp_path.iterdir())
        assert len(list(tmp_path.iterdir())) == 1
        process.kill()
        process.wait(PATIENCE_S)
        remove_left(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []
