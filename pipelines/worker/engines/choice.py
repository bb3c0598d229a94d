"""Which of several engines takes a request.  Does no I/O and holds no state."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping


def choose(key: str | None, in_flight: Mapping[int, int], max_ahead: int, turn: int = 0) -> int:
    """One of the engines of `in_flight`, engine → requests in flight there; it has at least one.

    With a key: the engine that the key gives the highest weight (rendezvous hashing: Thaler and Ravishankar,
    1998), among those that have at most `max_ahead` requests more than the least busy one.  So one key keeps
    to one engine, and when an engine leaves, only its own keys move.  Without a key: the least busy one;
    `turn` decides among equals.
    """
    least = min(in_flight.values())
    if key is not None:
        fit = [engine for engine, number in in_flight.items() if number - least <= max_ahead]
        return max(fit, key=lambda engine: _weight(key, engine))
    equals = [engine for engine, number in in_flight.items() if number == least]
    return equals[turn % len(equals)]


def _weight(key: str, engine: int) -> bytes:
    """The weight of an engine for a key, the same in every worker."""
    return hashlib.blake2b(f"{key} {engine}".encode(), digest_size=8).digest()
