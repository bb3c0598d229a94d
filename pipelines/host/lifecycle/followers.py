"""What each worker has built: a client that loads a model is answered when every worker serves it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pipelines.wire.listener import Peer

FOLLOW_S = 10.0
"""An answer waits no longer for a worker, which may be stuck."""


@dataclass(frozen=True)
class _Waiting:
    status: int
    until_s: float
    answer: Callable[[], None]


class Followers:
    """The last status that each worker has followed, and the answers that wait for all of them.

    Without it a client that loads a model through one worker could send its next request to another one that
    does not have the model yet.
    """

    def __init__(self) -> None:
        self._followed: dict[Peer, int] = {}
        self._waiting: list[_Waiting] = []

    def followed(self, peer: Peer, status: int) -> None:
        """All that can be built for this status, and for those before it, is built in the worker."""
        self._followed[peer] = status

    def gone(self, peer: Peer) -> None:
        self._followed.pop(peer, None)

    def when_at(self, status: int, answer: Callable[[], None]) -> None:
        """Have `answer` called by `turn` when every worker has followed a status, or after FOLLOW_S."""
        self._waiting.append(_Waiting(status, time.monotonic() + FOLLOW_S, answer))

    def turn(self) -> None:
        if not self._waiting:
            return
        now_s, last = time.monotonic(), min(self._followed.values(), default=None)
        due = [one for one in self._waiting if last is None or one.status <= last or one.until_s <= now_s]
        self._waiting = [one for one in self._waiting if one not in due]
        for one in due:
            one.answer()
