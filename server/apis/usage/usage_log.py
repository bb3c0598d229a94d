"""Counts what each key uses, request by request: for its limits, for `/metrics`, for the usage of days."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterable

from pipelines.base.errors import BraidError
from pipelines.telemetry.named_keys import count_use
from pipelines.telemetry.request_trace import RequestTrace
from server.apis.usage.database import DAY_S, UsageDatabase, UsagePlace, UsageTotals
from server.base.settings import Settings
from server.keys.key_file import KeyFile, NamedKey
from server.keys.limits import KeyLimits
from server.sqlite.off_loop import OffLoop

WRITE_S = 1.0
"""How long sums wait in a worker before they are written."""
MAX_WAITING = 100_000
"""Rows that wait while the file cannot be written; what comes beside them is not counted by day."""

log = logging.getLogger("braid.server")


class UsageLog:
    """Belongs to the event loop of a worker."""

    def __init__(
        self,
        settings: Settings,
        key_file: KeyFile | None,
        limits: KeyLimits,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._path = settings.usage_file
        self._key_file = key_file
        self._limits = limits
        self._now = now
        self._waiting: dict[UsagePlace, UsageTotals] = {}
        self._written_s = 0.0
        self._off_loop = OffLoop("usage", lambda: UsageDatabase(self._path, settings.usage_days, now))

    async def open(self) -> None:
        """Raises RuntimeError where the file cannot be used; each use tries it again."""
        self._off_loop.start()
        try:
            await self._off_loop.open()
        except (OSError, sqlite3.Error) as error:
            raise RuntimeError(f"usage cannot be stored in {self._path}: {error}") from error

    async def close(self) -> None:
        await self._write()
        await self._off_loop.close()

    def name(self, account: str) -> str:
        """How usage names a key: by its name in the file, else by its account, with a # in front."""
        key = self._key(account)
        return f"#{account}" if key is None else key.name

    def add(self, trace: RequestTrace) -> None:
        """A request has ended.  Its tokens are those of all calls that it made."""
        if not trace.calls:
            return
        key = self._key(trace.account)
        day, used = int(self._now() // DAY_S), _by_model(trace)
        for model, totals in used.items():
            if self._key_file is not None:
                name = None if key is None else key.name
                count_use(name, model, totals.requests, totals.input, totals.cached, totals.output)
            place = UsagePlace(day, self.name(trace.account), model)
            if place in self._waiting or len(self._waiting) < MAX_WAITING:
                self._waiting.setdefault(place, UsageTotals()).add(totals)
        if key:
            self._limits.spend(key, sum(totals.input + totals.output for totals in used.values()))

    def _key(self, account: str) -> NamedKey | None:
        return None if self._key_file is None else self._key_file.of_account(account)

    async def flush(self) -> None:
        """Write what waits, at most once a second."""
        if time.monotonic() - self._written_s >= WRITE_S:
            await self._write()

    async def rows(self, first_day: int, last_day: int) -> Iterable[tuple[UsagePlace, UsageTotals]]:
        """What days have; what other workers count now comes within a second.  Raises Unavailable."""
        await self._write()
        return await self._off_loop.run(UsageDatabase.rows, first_day, last_day)

    async def _write(self) -> None:
        """What cannot be written waits for the next time."""
        self._written_s = time.monotonic()
        gained, self._waiting = self._waiting, {}
        if not gained:
            return
        try:
            await self._off_loop.run(UsageDatabase.add, gained)
        except BraidError:  # it was logged
            for place, totals in gained.items():
                self._waiting.setdefault(place, UsageTotals()).add(totals)


def _by_model(trace: RequestTrace) -> dict[str, UsageTotals]:
    """What a request used of each model; it is one request of the first."""
    found: dict[str, UsageTotals] = {}
    for call in trace.calls:
        timing, is_first = call.timing, not found
        found.setdefault(call.model, UsageTotals(requests=int(is_first))).add(
            UsageTotals(0, timing.num_prompt_tokens, timing.num_cached_tokens, timing.num_output_tokens)
        )
    return found
