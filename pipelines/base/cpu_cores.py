"""The CPU cores that a process may use, as Linux describes them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

CPUS = Path("/sys/devices/system/cpu")


class Core(NamedTuple):
    """A physical core: its NUMA node, and those of its CPUs (hardware threads) that may be used."""

    node: int
    cpus: tuple[int, ...]


def usable_cores(cpus: Collection[int], root: Path = CPUS) -> list[Core]:
    """The cores of these CPUs, node by node.  A CPU of which `root` says nothing is a core of node 0."""
    siblings = {cpu: frozenset(_siblings(cpu, root)) & frozenset(cpus) for cpu in cpus}
    return sorted({Core(_node(cpu, root), tuple(sorted(siblings[cpu]))) for cpu in cpus})


def num_confined_cores() -> int | None:
    """How many cores this process may use; None where that is all of the machine, or is not known."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    cpus = os.sched_getaffinity(0)
    return len(usable_cores(cpus)) if len(cpus) < (os.cpu_count() or 1) else None


def _siblings(cpu: int, root: Path) -> set[int]:
    """The CPUs of the same core, this one among them."""
    try:
        text = (root / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text()
    except OSError:
        return {cpu}
    return {cpu}.union(*(range(int(first), int(last or first) + 1) for first, last in _RANGE.findall(text)))


def _node(cpu: int, root: Path) -> int:
    nodes = [each.name.removeprefix("node") for each in (root / f"cpu{cpu}").glob("node[0-9]*")]
    return min(map(int, nodes), default=0)


_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
