"""Ways to choose an engine for a turn: those of a server with several engines, and others beside them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import count
from typing import Protocol

from pipelines.worker.engines.choice import choose
from server.affinity import affinity_key
from tools.simulate.trace import Session

MAX_AHEAD = 8
"""Requests that the engine of a key may have more than the least busy one: the server's default."""
FIRST_TOKENS = 64
"""The first tokens of a prompt, by which system prompts differ."""


class Route(Protocol):
    def choose(self, session: Session, in_flight: Sequence[int]) -> int:
        """The engine for the next turn of `session`, by the requests that each engine has now."""


class RandomRoute:
    """Any engine."""

    def __init__(self) -> None:
        self._chance = random.Random(0)

    def choose(self, session: Session, in_flight: Sequence[int]) -> int:
        return self._chance.randrange(len(in_flight))


class KeyRoute:
    """The engine of a key while it is not much busier than others; without a key the least busy one."""

    def __init__(self, key_of: Callable[[Session], str | None]) -> None:
        self._key_of = key_of
        self._turns = count()

    def choose(self, session: Session, in_flight: Sequence[int]) -> int:
        return choose(self._key_of(session), dict(enumerate(in_flight)), MAX_AHEAD, next(self._turns))


def session_key(session: Session) -> str | None:
    """That of a client that sends X-Session-ID."""
    return affinity_key({"X-Session-ID": str(session.number)}, {})


def prefix_key(session: Session) -> str | None:
    """That of the system prompt, which sessions share; no server of ours routes so."""
    return affinity_key({}, {"prompt": session.history[:FIRST_TOKENS]})


ROUTES: dict[str, Callable[[], Route]] = {
    "random": RandomRoute,
    "least": lambda: KeyRoute(lambda session: None),
    "session": lambda: KeyRoute(session_key),
    "prefix": lambda: KeyRoute(prefix_key),
}
