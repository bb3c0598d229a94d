"""How much memory this process may still take: what the machine has left, and what its control group allows.

Knows Linux's control groups (v2, Documentation/admin-guide/cgroup-v2.rst); knows nothing of caches.
"""

from __future__ import annotations

from pathlib import Path

import psutil

GROUPS = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")


def free_bytes() -> int:
    """The least of what the machine and every control group around this process have left."""
    left = [int(psutil.virtual_memory().available), *_left_of_groups(GROUPS, OWN_GROUP)]
    return max(0, min(left))


def _left_of_groups(root: Path, own: Path) -> list[int]:
    """Of each group around this process that has a bound."""
    try:
        name = next(line[3:] for line in own.read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return []
    group = root / name.lstrip("/")
    around = [group, *(parent for parent in group.parents if parent.is_relative_to(root))]
    return [left for folder in around if (left := _left_of(folder)) is not None]


def _left_of(group: Path) -> int | None:
    """None without a bound.  Pages of files that nobody used lately are given back when they are wanted."""
    try:
        bound, used = (group / "memory.max").read_text(), int((group / "memory.current").read_text())
        rows = dict(row.split() for row in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    return None if bound.strip() == "max" else int(bound) - used + int(rows.get("inactive_file", 0))
