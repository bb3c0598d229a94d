"""Measures how much memory this process may still allocate, by the machine and its control groups.

Linux control groups v2: Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

from pathlib import Path

import psutil

GROUPS = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")


def free_bytes() -> int:
    """Bytes that are free on the machine and in every control group around this process: the least of
    them.
    """
    left = [int(psutil.virtual_memory().available), *_left_of_groups(GROUPS, OWN_GROUP)]
    return max(0, min(left))


def _left_of_groups(root: Path, own: Path) -> list[int]:
    """Free bytes of each group around this process that has a limit."""
    try:
        name = next(line[3:] for line in own.read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return []
    group = root / name.lstrip("/")
    around = [group, *(parent for parent in group.parents if parent.is_relative_to(root))]
    return [left for folder in around if (left := _left_of(folder)) is not None]


def _left_of(group: Path) -> int | None:
    """Free bytes of a group, None without a limit.  The kernel reclaims inactive file pages: they are
    free.
    """
    try:
        bound, used = (group / "memory.max").read_text(), int((group / "memory.current").read_text())
        rows = dict(row.split() for row in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    return None if bound.strip() == "max" else int(bound) - used + int(rows.get("inactive_file", 0))
