"""Leases on rows: a row that is worked on has an `owner` (a worker), which renews `beat` with heartbeats.

Heartbeats are times of a monotonic clock in s, which is the same in all processes of a machine.
"""

from __future__ import annotations

LEASE_S = 5.0
"""An owner without a heartbeat for this long is dead."""

NOT_RUNNING = "(owner IS NULL OR beat <= ? OR beat > ?)"
"""No owner, or a dead one; parameters: those of `lease_bounds`."""


def lease_bounds(ticks: float) -> tuple[float, float]:
    """The oldest heartbeat of a live owner, and the current time: one in the future was before a reboot."""
    return ticks - LEASE_S, ticks
