"""What is left of memory, by the control groups of a made-up machine."""

from __future__ import annotations

import psutil
import pytest

from pipelines.inference.backends import free_memory
from pipelines.inference.backends.free_memory import free_bytes


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """`machine(group, **files)` writes a group's files; this process is in /a/b."""
    root, own = tmp_path / "groups", tmp_path / "own"
    own.write_text("1:name=systemd:/elsewhere\n0::/a/b\n")
    monkeypatch.setattr(free_memory, "GROUPS", root)
    monkeypatch.setattr(free_memory, "OWN_GROUP", own)

    def write(group, bound, used, inactive_file=0):
        folder = root / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.max").write_text(f"{bound}\n")
        (folder / "memory.current").write_text(f"{used}\n")
        (folder / "memory.stat").write_text(f"anon 5\ninactive_file {inactive_file}\n")

    return write


def machine_left():
    return pytest.approx(psutil.virtual_memory().available, rel=0.2)


def test_a_machine_without_groups_has_what_it_has(machine):
    assert free_bytes() == machine_left()


def test_a_bound_leaves_what_is_not_used_but_for_files(machine):
    machine("a/b", 10_000, 7_000, inactive_file=1_500)
    assert free_bytes() == 4_500


def test_every_group_around_counts(machine):
    machine("a/b", "max", 7_000)
    machine("a", 9_000, 8_000)
    machine(".", 50_000, 8_000)
    assert free_bytes() == 1_000


def test_groups_beside_do_not(machine):
    machine("a/c", 10, 5)
    assert free_bytes() == machine_left()


def test_more_than_the_bound_leaves_nothing(machine):
    machine("a/b", 100, 200)
    assert free_bytes() == 0
