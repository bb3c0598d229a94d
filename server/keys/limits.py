"""How many requests and tokens a key may have in a minute, counted together by all workers of a server.

A key's state is one number for each bound: the time at which its minute is free again (the generic cell rate
algorithm, ITU-T I.371).  The numbers are in a file that all workers map, and change under a lock of it.
"""

from __future__ import annotations

import fcntl
import hashlib
import math
import mmap
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pipelines.base.errors import Overloaded
from pipelines.telemetry.named_keys import count_limited
from server.keys.key_file import NamedKey

MINUTE_S = 60.0
ROW = struct.Struct("<16sdd")
NUM_ROWS = 1 << 14
MAX_TRIES = 64
REQUESTS, TOKENS = "requests", "tokens"
PARTS = ("limit", "remaining", "reset")
HEADERS = [f"x-ratelimit-{part}-{kind}" for kind in (REQUESTS, TOKENS) for part in PARTS]


@dataclass(frozen=True, slots=True)
class KeyBound:
    """One bound of a key: `limit` in a minute, how many are left of it, after how many seconds all are."""

    kind: str
    limit: int
    remaining: int
    reset_s: float

    @property
    def wait_s(self) -> float:
        """The seconds until one is left; 0 or less: now."""
        return self.reset_s - MINUTE_S + MINUTE_S / self.limit

    def headers(self) -> dict[str, str]:
        """The headers that OpenAI sends of such a bound."""
        return {
            f"x-ratelimit-limit-{self.kind}": str(self.limit),
            f"x-ratelimit-remaining-{self.kind}": str(self.remaining),
            f"x-ratelimit-reset-{self.kind}": duration(self.reset_s),
        }


class KeyLimited(Overloaded):
    """A key has had what it may have in a minute."""

    def __init__(self, key: NamedKey, bound: KeyBound, bounds: list[KeyBound]) -> None:
        super().__init__(
            f"Rate limit reached for {bound.kind} per minute of the key `{key.name}`: limit {bound.limit}, "
            f"remaining {bound.remaining}; try again in {duration(bound.wait_s)}",
            retry_after_s=max(1, math.ceil(bound.wait_s)),
        )
        self.kind_of_bound, self.bounds = bound.kind, bounds


class Counted(Protocol):
    """A request of a key."""

    bounds: list[KeyBound]


class KeyLimits:
    """The counts of all keys.  The file belongs to one server and ends with it."""

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        """Without a path the counts are those of this process alone.  `clock` is one of the machine, in s."""
        self._clock = clock
        self._file = None if path is None else os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if self._file is not None:
            os.ftruncate(self._file, NUM_ROWS * ROW.size)
        self._rows = mmap.mmap(-1 if self._file is None else self._file, NUM_ROWS * ROW.size)

    def enter(self, key: NamedKey) -> list[KeyBound]:
        """Count a request; where the key stands then.  Raises KeyLimited, with nothing counted."""
        now = self._clock()
        with self._row(key) as (row, free_at):
            bounds = self._bounds(key, free_at, now)
            for bound in bounds:
                if bound.remaining < 1:
                    raise KeyLimited(key, bound, bounds)
            if key.requests_per_minute:
                free_at[0] = max(free_at[0], now) + MINUTE_S / key.requests_per_minute
            self._write(key, row, free_at)
            return self._bounds(key, free_at, now)

    def admit(self, key: NamedKey, request: Counted) -> None:
        """Count a request, and note where its key stands, also where that is refused.  Raises KeyLimited."""
        try:
            request.bounds = self.enter(key)
        except KeyLimited as error:
            request.bounds = error.bounds
            count_limited(key.name, error.kind_of_bound)
            raise

    def spend(self, key: NamedKey, num_tokens: int) -> None:
        """Count the tokens of a request that has ended: more than are left delay the key's next request."""
        if key.tokens_per_minute and num_tokens:
            with self._row(key) as (row, free_at):
                start = max(free_at[1], self._clock())
                free_at[1] = start + num_tokens * MINUTE_S / key.tokens_per_minute
                self._write(key, row, free_at)

    def _bounds(self, key: NamedKey, free_at: list[float], now: float) -> list[KeyBound]:
        """The bounds that the key has, of requests and of tokens."""
        limits = (key.requests_per_minute, key.tokens_per_minute)
        return [
            _bound(kind, limit, max(0.0, at - now))
            for kind, limit, at in zip((REQUESTS, TOKENS), limits, free_at, strict=True)
            if limit is not None
        ]

    @contextmanager
    def _row(self, key: NamedKey) -> Iterator[tuple[int, list[float]]]:
        """The place of a key's row and its times, while no other process changes them."""
        self._lock(fcntl.LOCK_EX)
        try:
            row = self._place(_id(key))
            _, *free_at = ROW.unpack_from(self._rows, row)
            yield row, free_at
        finally:
            self._lock(fcntl.LOCK_UN)

    def _lock(self, operation: int) -> None:
        if self._file is not None:
            fcntl.flock(self._file, operation)

    def _write(self, key: NamedKey, row: int, free_at: list[float]) -> None:
        ROW.pack_into(self._rows, row, _id(key), *free_at)

    def _place(self, key_id: bytes) -> int:
        """Where a key's row is, or shall be; where too many names came and went, that of another name."""
        first = int.from_bytes(key_id[:4]) % NUM_ROWS
        for tried in range(MAX_TRIES):
            place = (first + tried) % NUM_ROWS * ROW.size
            found, *_ = ROW.unpack_from(self._rows, place)
            if found in (key_id, bytes(16)):
                return place
        ROW.pack_into(self._rows, first * ROW.size, key_id, 0.0, 0.0)
        return first * ROW.size


def _bound(kind: str, limit: int, reset_s: float) -> KeyBound:
    used = reset_s * limit / MINUTE_S
    return KeyBound(kind, limit, max(0, math.floor(limit - used + 1e-6)), reset_s)


def _id(key: NamedKey) -> bytes:
    return hashlib.blake2b(key.name.encode(), digest_size=16).digest()


def duration(seconds: float) -> str:
    """A time as OpenAI writes it in headers: 12ms, 8.64s, 6m0s."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds, 3), 60)
    return (f"{minutes:.0f}m" if minutes else "") + f"{rest:.3f}".rstrip("0").rstrip(".") + "s"
