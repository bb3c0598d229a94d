"""How the cores of a machine are divided, and which cores it has."""

from __future__ import annotations

import os

import pytest

from pipelines.base.cpu_cores import Core, num_confined_cores, usable_cores
from server.process.cpu_shares import divide


def cores(*nodes, threads=1):
    """Nodes with so many cores each; the first threads of all cores come before the second ones."""
    places = [node for node, number in enumerate(nodes) for _ in range(number)]
    total = len(places)
    return [
        Core(node, tuple(i + total * thread for thread in range(threads))) for i, node in enumerate(places)
    ]


@pytest.mark.parametrize(
    ("machine", "num_shares", "expected"),
    [
        (cores(2), 2, [{0}, {1}]),
        (cores(5), 2, [{0, 1, 2}, {3, 4}]),
        (cores(2, threads=2), 2, [{0, 2}, {1, 3}]),  # never half a core
        (cores(2, 2), 2, [{0, 1}, {2, 3}]),  # a node each
        (cores(3, 1), 2, [{0, 1, 2}, {3}]),  # even where nodes differ
        (cores(2, 2), 4, [{0}, {1}, {2}, {3}]),
        (cores(2, 2, 2, 2), 2, [{0, 1, 2, 3}, {4, 5, 6, 7}]),  # whole nodes
        (cores(3, 3), 3, [{0, 1}, {2, 3}, {4, 5}]),  # where that cannot be
        (cores(3, 1), 4, [{0}, {1}, {2}, {3}]),
        (cores(4), 1, [{0, 1, 2, 3}]),
    ],
)
def test_cores_are_divided(machine, num_shares, expected):
    assert divide(machine, num_shares) == [frozenset(share) for share in expected]


def test_more_engines_than_cores_are_refused():
    with pytest.raises(ValueError, match="3 engines need as many CPU cores, and this machine has 2"):
        divide(cores(2, threads=2), 3)


def test_cores_are_read_as_linux_describes_them(tmp_path):
    """Two nodes of two cores with two threads each; one CPU may not be used, of another nothing is known."""
    for cpu, (node, siblings) in enumerate([(0, "0,4"), (0, "1,5"), (1, "2-3"), (1, "2-3"), (0, "0,4")]):
        (tmp_path / f"cpu{cpu}" / "topology").mkdir(parents=True)
        (tmp_path / f"cpu{cpu}" / f"node{node}").mkdir()
        (tmp_path / f"cpu{cpu}" / "topology" / "thread_siblings_list").write_text(siblings + "\n")
    found = usable_cores({0, 1, 2, 3, 4, 9}, tmp_path)
    assert found == [Core(0, (0, 4)), Core(0, (1,)), Core(0, (9,)), Core(1, (2, 3))]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux")
def test_a_process_that_is_confined_knows_it(monkeypatch):
    cpus = os.sched_getaffinity(0)
    monkeypatch.setattr(os, "cpu_count", lambda: len(cpus))
    assert num_confined_cores() is None
    monkeypatch.setattr(os, "cpu_count", lambda: len(cpus) + 1)
    assert num_confined_cores() == len(usable_cores(cpus))
