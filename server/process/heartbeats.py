"""The files whose times of modification are the heartbeats of a server's engine hosts."""

from __future__ import annotations

import time
from pathlib import Path

from server.base.settings import Settings

SILENT_SHARE = 0.25
"""A host that was silent for this part of the time after which it is restarted takes no new requests."""


def heartbeats(settings: Settings) -> list[Path]:
    """The heartbeat file of each engine host, in the order of their sockets; [] in a process that no server
    has started.
    """
    sockets = settings.engine_sockets
    if len(sockets) <= 1:
        return [socket.with_name("heartbeat") for socket in sockets]
    return [socket.with_name(f"heartbeat-{i}") for i, socket in enumerate(sockets)]


def are_silent(settings: Settings) -> bool:
    """Whether every engine host is stopped or hangs: it lives and does nothing."""
    limit_s = SILENT_SHARE * settings.engine_timeout_s
    beats = heartbeats(settings)
    return bool(beats) and all(_age_s(beat) > limit_s for beat in beats)


def _age_s(beat: Path) -> float:
    """The seconds since a beat by the wall clock; after a jump of it they are right with the next beat."""
    try:
        return time.time() - beat.stat().st_mtime
    except OSError:
        return 0.0
