"""Ways to choose an engine for a turn: those of a server with several engines, and others beside them."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count
from typing import Protocol

from pipelines.worker.engines.choice import choose
from server.services.affinity import affinity_key
from tools.lab.simulate.loads import Loads
from tools.lab.simulate.trace import Session

MAX_AHEAD = 8
"""Requests that the engine of a key may have more than the least busy one: the server's default."""
FIRST_TOKENS = 64
"""The first tokens of a prompt, by which system prompts differ."""


class Route(Protocol):
    def choose(self, session: Session, loads: Loads) -> int:
        """The engine for the next turn of `session`."""


class RandomRoute:
    """Any engine."""

    def __init__(self) -> None:
        self._chance = random.Random(0)

    def choose(self, session: Session, loads: Loads) -> int:
        return self._chance.randrange(len(loads.in_flight))


class LeastRoute:
    """The least busy engine; equals take turns."""

    def __init__(self) -> None:
        self._turns = count()

    def choose(self, session: Session, loads: Loads) -> int:
        equals = loads.least_busy
        return equals[next(self._turns) % len(equals)]


class KeyRoute:
    """The engine of a key while it is not much busier than others, as a server's workers choose it.

    The weights of all engines are compared once for a key, and again only where its engine is too busy.
    """

    def __init__(self, key_of: Callable[[Session], str | None]) -> None:
        self._key_of = key_of
        self._own: dict[str | None, int] = {}

    def choose(self, session: Session, loads: Loads) -> int:
        key = self._key_of(session)
        if key not in self._own:
            self._own[key] = choose(key, dict.fromkeys(range(len(loads.in_flight)), 0), MAX_AHEAD)
        own = self._own[key]
        if loads.in_flight[own] - loads.least <= MAX_AHEAD:
            return own
        return choose(key, dict(enumerate(loads.in_flight)), MAX_AHEAD)


def session_key(session: Session) -> str | None:
    """The key of a client that sends X-Session-ID."""
    return affinity_key({"X-Session-ID": str(session.number)}, {})


def prefix_key(session: Session) -> str | None:
    """The key of the system prompt, which sessions share; Braid does not route so."""
    return affinity_key({}, {"prompt": session.history[:FIRST_TOKENS]})


ROUTES: dict[str, Callable[[], Route]] = {
    "random": RandomRoute,
    "least": LeastRoute,
    "session": lambda: KeyRoute(session_key),
    "prefix": lambda: KeyRoute(prefix_key),
}
