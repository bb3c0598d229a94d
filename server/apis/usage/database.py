"""The SQLite file of usage: one row for each key and model of a day, shared by all workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from server.sqlite import connection

DAY_S = 86_400
SCHEMA_VERSION = 1
TABLES = """
CREATE TABLE usage (
    day INTEGER NOT NULL,
    key TEXT NOT NULL,
    model TEXT NOT NULL,
    requests INTEGER NOT NULL,
    input INTEGER NOT NULL,
    cached INTEGER NOT NULL,
    output INTEGER NOT NULL,
    PRIMARY KEY (day, key, model)
) WITHOUT ROWID;
"""
ADD = """
INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
requests = requests + excluded.requests, input = input + excluded.input,
cached = cached + excluded.cached, output = output + excluded.output
"""


class UsagePlace(NamedTuple):
    """What a row counts: `day` is the number of a day since 1970, in UTC."""

    day: int
    key: str
    model: str


@dataclass(slots=True)
class UsageTotals:
    """Sums over requests; `cached` are those of the `input` tokens that were in the cache."""

    requests: int = 0
    input: int = 0
    cached: int = 0
    output: int = 0

    def add(self, other: UsageTotals) -> None:
        self.requests += other.requests
        self.input += other.input
        self.cached += other.cached
        self.output += other.output


class UsageDatabase:
    """One worker's connection.  Every call is one transaction and may wait for another worker's."""

    def __init__(self, path: Path | None, max_days: int, now: Callable[[], float] = time.time) -> None:
        """Without a path the sums are in this process's memory.  Raises sqlite3.Error and OSError."""
        self._db = connection.connect(path, SCHEMA_VERSION, lambda version: TABLES)
        self._max_days = max_days
        self._now = now
        self._cleaned = 0  # the day on which old rows were last removed

    def close(self) -> None:
        self._db.close()

    def add(self, gained: Mapping[UsagePlace, UsageTotals]) -> None:
        """Add to rows; once a day the rows of days that are too old are removed."""
        today = int(self._now() // DAY_S)
        with connection.transaction(self._db):
            self._db.executemany(ADD, [(*place, *_numbers(totals)) for place, totals in gained.items()])
            if self._cleaned != today:
                self._db.execute("DELETE FROM usage WHERE day <= ?", (today - self._max_days,))
        self._cleaned = today

    def rows(self, first_day: int, last_day: int) -> Iterable[tuple[UsagePlace, UsageTotals]]:
        """What days have, in order, the last one included."""
        found = self._db.execute("SELECT * FROM usage WHERE day BETWEEN ? AND ?", (first_day, last_day))
        return [(UsagePlace(*row[:3]), UsageTotals(*row[3:])) for row in found.fetchall()]


def _numbers(totals: UsageTotals) -> tuple[int, int, int, int]:
    return totals.requests, totals.input, totals.cached, totals.output
