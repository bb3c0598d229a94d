"""Responses in an SQLite file that all workers share, bounded in number, bytes and age.

Every call is one transaction and may wait for another worker's: call it off the event loop, from one
thread.  A response that runs has an owner, who must say now and then that it lives.  Knows JSON texts and
times; knows nothing of HTTP or of what a response means.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from server.responses.tables import Kept, opened

LEASE_S = 5.0
"""An owner that was silent for so long is dead."""

FREE = "(owner IS NULL OR beat <= ? OR beat > ?)"
"""Nobody works on it, or who did is dead; its parameters are the oldest beat of the living, and now."""


@dataclass(frozen=True, slots=True)
class Limits:
    max_count: int
    max_bytes: int
    max_age_s: float


class Store:
    """One worker's connection.

    Ages are told by `now`, the wall clock; beats by `ticks`, which never jumps and is the same in all
    processes of a machine.
    """

    def __init__(
        self,
        path: Path | None,
        limits: Limits,
        now: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without a path the responses are this process's alone.  Raises sqlite3.Error."""
        self._limits = limits
        self._now = now
        self._ticks = ticks
        self._db = opened(path)

    def close(self) -> None:
        self._db.close()

    def add(self, kept: Kept) -> bool:
        """Keep a response; False when there is one of that id.  Old ones go where room is wanted."""
        row = (kept.id, kept.status, kept.body, kept.items, kept.background, kept.owner)
        size = len(kept.body) + len(kept.items)
        with self._changing():
            done = self._db.execute(
                "INSERT OR IGNORE INTO responses VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, self._ticks(), self._now(), size),
            )
            if done.rowcount == 0:
                return False
            self._place(kept.id, kept.item_ids)
            self._make_room()
        return True

    def go_on(self, owner: str, kept: Kept, events: Iterable[tuple[int, bytes]]) -> bool:
        """Write how far a response came; False when it is not `owner`'s any more, and nothing is written."""
        events = list(events)
        more = sum(len(data) for _, data in events)
        with self._changing():
            done = self._db.execute(
                "UPDATE responses SET status = ?, body = ?, owner = ?, beat = ?, size = size + ?"
                " WHERE id = ? AND owner = ?",
                (kept.status, kept.body, kept.owner, self._ticks(), more, kept.id, owner),
            )
            if done.rowcount == 0:
                return False
            self._write(kept.id, events)
            self._place(kept.id, kept.item_ids)
            if kept.owner is None:
                self._make_room()
        return True

    def get(self, response_id: str) -> Kept | None:
        row = self._db.execute(
            "SELECT id, status, body, items, background, owner FROM responses WHERE id = ? AND made > ?",
            (response_id, self._now() - self._limits.max_age_s),
        ).fetchone()
        return None if row is None else Kept(row[0], row[1], row[2], row[3], bool(row[4]), row[5])

    def holder(self, item_id: str) -> Kept | None:
        """The response that an item belongs to."""
        row = self._db.execute("SELECT response FROM item_places WHERE item = ?", (item_id,)).fetchone()
        return None if row is None else self.get(row[0])

    def events(self, response_id: str, after: int) -> list[tuple[int, bytes]]:
        """The events with a larger number than `after`, in order."""
        return self._db.execute(
            "SELECT number, data FROM events WHERE response = ? AND number > ? ORDER BY number",
            (response_id, after),
        ).fetchall()

    def take(self, kept: Kept, status: str, body: bytes, events: Iterable[tuple[int, bytes]] = ()) -> bool:
        """End a response that somebody works on, in his place; False when it has ended meanwhile."""
        with self._changing():
            done = self._db.execute(
                "UPDATE responses SET status = ?, body = ?, owner = NULL WHERE id = ? AND owner = ?",
                (status, body, kept.id, kept.owner),
            )
            if done.rowcount == 0:
                return False
            self._write(kept.id, events)
        return True

    def next_number(self, response_id: str) -> int:
        """The number of the event that would come next."""
        query = "SELECT coalesce(max(number), -1) + 1 FROM events WHERE response = ?"
        return int(self._db.execute(query, (response_id,)).fetchone()[0])

    def delete(self, response_id: str) -> bool:
        with self._changing():
            found = self._db.execute("SELECT 1 FROM responses WHERE id = ?", (response_id,)).fetchone()
            self._drop([response_id])
        return found is not None

    def beat(self, owner: str, response_ids: Iterable[str]) -> set[str]:
        """The owner works on these; gives back those that are still its own."""
        beats = [(self._ticks(), response_id, owner) for response_id in response_ids]
        with self._changing():
            self._db.executemany("UPDATE responses SET beat = ? WHERE id = ? AND owner = ?", beats)
            rows = self._db.execute("SELECT id FROM responses WHERE owner = ?", (owner,)).fetchall()
        return {row[0] for row in rows}

    def is_owned(self, response_id: str) -> bool:
        """Whether somebody works on it."""
        query = "SELECT 1 FROM responses WHERE id = ? AND owner IS NOT NULL"
        return self._db.execute(query, (response_id,)).fetchone() is not None

    def is_abandoned(self, response_id: str) -> bool:
        """Whether somebody should work on it, and is dead.  A beat of the future is of an earlier boot."""
        row = self._db.execute(
            "SELECT beat FROM responses WHERE id = ? AND owner IS NOT NULL", (response_id,)
        ).fetchone()
        return row is not None and not 0 <= self._ticks() - row[0] < LEASE_S

    def _place(self, response_id: str, item_ids: Iterable[str]) -> None:
        places = [(item_id, response_id) for item_id in item_ids]
        self._db.executemany("INSERT OR IGNORE INTO item_places VALUES (?, ?)", places)

    def _write(self, response_id: str, events: Iterable[tuple[int, bytes]]) -> None:
        rows = [(response_id, number, data) for number, data in events]
        self._db.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)

    def _make_room(self) -> None:
        """Drop what is too old, then the oldest that nobody works on until the rest is within bounds."""
        limits, ticks = self._limits, self._ticks()
        lease = (ticks - LEASE_S, ticks)
        born = self._now() - limits.max_age_s
        old = self._db.execute(f"SELECT id FROM responses WHERE made <= ? AND {FREE}", (born, *lease))
        self._drop([row[0] for row in old.fetchall()])
        count, size = self._db.execute("SELECT number, size FROM totals").fetchone()
        if count <= limits.max_count and size <= limits.max_bytes:
            return
        dropped = []
        for response_id, its_size in self._db.execute(
            f"SELECT id, size FROM responses WHERE {FREE} ORDER BY made", lease
        ):
            if count <= limits.max_count and size <= limits.max_bytes:
                break
            dropped.append(response_id)
            count, size = count - 1, size - its_size
        self._drop(dropped)

    def _drop(self, response_ids: list[str]) -> None:
        for response_id in response_ids:
            self._db.execute("DELETE FROM responses WHERE id = ?", (response_id,))
            self._db.execute("DELETE FROM events WHERE response = ?", (response_id,))
            self._db.execute("DELETE FROM item_places WHERE response = ?", (response_id,))

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """One transaction that writes: it waits for its turn at the start, not in the middle."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
