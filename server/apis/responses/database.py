"""Stores responses in an SQLite file that all workers share, bounded in number, bytes and age.

Every call is one transaction and may wait for another worker's: call it off the event loop, from one
thread.  A running response has an owner (a worker), which renews a lease on it with heartbeats.  Does not
depend on HTTP or on the content of responses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from server.apis.responses.sqlite_tables import StoredResponse, connect
from server.base.disk_space import StorageFull
from server.http.admission import may_take
from server.sqlite.connection import transaction
from server.sqlite.leases import NOT_RUNNING, Leases

WITH_BODY = 3
"""Events of a background response that have its whole body."""
PLACE_BYTES = 64
"""The bytes of an item's place, besides the id of the item."""


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """`share` is the part of the bytes that one account may take with responses that run: none is evicted."""

    max_count: int
    max_bytes: int
    max_age_s: float
    share: float = 1.0


class ResponseDatabase:
    """One worker's connection to the stored responses.

    Ages use `now`, the wall clock in s; heartbeats use `ticks`, a monotonic clock in s that is the same in
    all processes of a machine.
    """

    def __init__(
        self,
        path: Path | None,
        limits: StoreLimits,
        now: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without a path the responses are stored in this process's memory.  Raises sqlite3.Error."""
        self._limits = limits
        self._now = now
        self._ticks = ticks
        self._db = connect(path)
        self._leases = Leases(self._db, "responses", ticks, key="id")

    def close(self) -> None:
        self._db.close()

    def add(self, stored: StoredResponse) -> bool:
        """Store a response in the place of old ones beyond the limits; False when its id is in use.

        Raises StorageFull for one that takes too much of the store.
        """
        row = (stored.id, stored.status, stored.body, stored.items, stored.background, stored.owner)
        size = _num_bytes(stored)
        if size > self._limits.max_bytes // 2:
            raise StorageFull("a response that takes more than half of BRAID_RESPONSES_MB is not stored")
        with transaction(self._db):
            if self._db.execute("SELECT 1 FROM responses WHERE id = ?", (stored.id,)).fetchone():
                return False
            if stored.owner is not None:
                self._check_share(stored.account, size + WITH_BODY * len(stored.body))
            self._make_room(stored.account, size, 1)
            self._db.execute(
                "INSERT INTO responses VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, self._ticks(), self._now(), size, stored.account),
            )
            self._index_items(stored)
        return True

    def update(self, owner: str, stored: StoredResponse, events: Iterable[tuple[int, bytes]]) -> bool:
        """Write the progress of a running response; False, with nothing written, when `owner` lost it."""
        events = list(events)
        more = sum(len(data) for _, data in events) + len(stored.body)
        with transaction(self._db):
            done = self._db.execute(
                "UPDATE responses SET status = ?, body = ?, owner = ?, beat = ?,"
                " size = size - length(body) + ? WHERE id = ? AND owner = ?",
                (stored.status, stored.body, stored.owner, self._ticks(), more, stored.id, owner),
            )
            if done.rowcount == 0:
                return False
            self._add_events(stored.id, events)
            self._index_items(stored)
            if stored.owner is None:
                self._make_room(stored.account)
        return True

    def get(self, response_id: str, account: str = "") -> StoredResponse | None:
        """A response that is the account's or everybody's; another's is as if it was not stored."""
        row = self._db.execute(
            "SELECT id, status, body, items, background, owner, account FROM responses"
            " WHERE id = ? AND made > ? AND account IN (?, '')",
            (response_id, self._now() - self._limits.max_age_s, account),
        ).fetchone()
        if row is None:
            return None
        stored_id, status, body, items, background, owner, whose = row
        return StoredResponse(stored_id, status, body, items, bool(background), owner, account=whose)

    def find_by_item(self, item_id: str, account: str = "") -> StoredResponse | None:
        """The response that an item belongs to; of the account's own and everybody's, the own one."""
        row = self._db.execute(
            "SELECT response FROM item_places WHERE item = ? AND account IN (?, '') ORDER BY account DESC",
            (item_id, account),
        ).fetchone()
        return None if row is None else self.get(row[0], account)

    def is_used(self, response_id: str) -> bool:
        """Whether a response, of whatever account, has this id."""
        oldest = self._now() - self._limits.max_age_s
        query = "SELECT 1 FROM responses WHERE id = ? AND made > ?"
        return self._db.execute(query, (response_id, oldest)).fetchone() is not None

    def events(self, response_id: str, after: int) -> list[tuple[int, bytes]]:
        """The events with a larger number than `after`, in order."""
        return self._db.execute(
            "SELECT number, data FROM events WHERE response = ? AND number > ? ORDER BY number",
            (response_id, after),
        ).fetchall()

    def end(
        self, stored: StoredResponse, status: str, body: bytes, events: Iterable[tuple[int, bytes]] = ()
    ) -> bool:
        """End a running response in place of its owner; False when it has already ended."""
        events = list(events)
        more = sum(len(data) for _, data in events) + len(body)
        with transaction(self._db):
            done = self._db.execute(
                "UPDATE responses SET status = ?, body = ?, owner = NULL, size = size - length(body) + ?"
                " WHERE id = ? AND owner = ?",
                (status, body, more, stored.id, stored.owner),
            )
            if done.rowcount == 0:
                return False
            self._add_events(stored.id, events)
        return True

    def next_number(self, response_id: str) -> int:
        """The sequence number of the next event."""
        query = "SELECT coalesce(max(number), -1) + 1 FROM events WHERE response = ?"
        return int(self._db.execute(query, (response_id,)).fetchone()[0])

    def delete(self, response_id: str, account: str = "") -> bool:
        """Delete a response that is the account's or everybody's; False where there is none."""
        with transaction(self._db):
            query = "SELECT id FROM responses WHERE id = ? AND account IN (?, '')"
            found = self._db.execute(query, (response_id, account)).fetchall()
            self._delete([row[0] for row in found])
        return bool(found)

    def heartbeat(self, owner: str, response_ids: Iterable[str]) -> set[str]:
        """Renew the owner's lease on these responses; the ids of all responses that it still owns."""
        with transaction(self._db):
            return self._leases.renew(owner, response_ids)

    def is_running(self, response_id: str) -> bool:
        """Whether the response has an owner."""
        query = "SELECT 1 FROM responses WHERE id = ? AND owner IS NOT NULL"
        return self._db.execute(query, (response_id,)).fetchone() is not None

    def is_abandoned(self, response_id: str) -> bool:
        """Whether its owner is dead."""
        query = f"SELECT 1 FROM responses WHERE id = :id AND owner IS NOT NULL AND {NOT_RUNNING}"
        values = {"id": response_id, **self._leases.bounds()}
        return self._db.execute(query, values).fetchone() is not None

    def _index_items(self, stored: StoredResponse) -> None:
        rows = [(item_id, stored.id, stored.account) for item_id in stored.item_ids]
        self._db.executemany("INSERT OR IGNORE INTO item_places VALUES (?, ?, ?)", rows)

    def _add_events(self, response_id: str, events: Iterable[tuple[int, bytes]]) -> None:
        rows = [(response_id, number, data) for number, data in events]
        self._db.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)

    def _make_room(self, account: str, more: int = 0, num_more: int = 0) -> None:
        """Delete expired responses, then ended ones until `more` bytes of an account are within the limits.

        The oldest of who holds the largest part of the store go first; an account that holds a smaller part
        than this one loses nothing for it.  Raises StorageFull where that gives too few bytes for new ones.
        """
        self._delete_expired()
        limits = self._limits
        accounts = {name: (number, size) for name, number, size in self._db.execute("SELECT * FROM shares")}
        number, size = accounts.get(account, (0, 0))
        accounts[account] = number + num_more, size + more
        while True:
            count, size = (sum(column) for column in zip(*accounts.values(), strict=True))
            if count <= limits.max_count and size <= limits.max_bytes:
                return
            candidate = self._next_victim(accounts, account)
            if candidate is None and more and size > limits.max_bytes:
                raise StorageFull("the response store is full of responses that have not ended; try again")
            if candidate is None:
                return
            victim, response_id, num_bytes = candidate
            number, size = accounts[victim]
            accounts[victim] = number - 1, size - num_bytes
            self._delete([response_id])

    def _check_share(self, account: str, more: int) -> None:
        """Raise StorageFull where running responses of an account have no place for `more` bytes."""
        grown = f"max(size, length(items) + {1 + WITH_BODY} * length(body))"
        held = f"SELECT coalesce(sum({grown}), 0) FROM responses WHERE owner IS NOT NULL"
        query = f"{held} AND coalesce(? = account, 1)"
        own, running = (self._db.execute(query, (name,)).fetchone()[0] for name in (account, None))
        if not may_take(self._limits.share, own, self._limits.max_bytes - running, more):
            raise StorageFull("background responses of this API key take their share of BRAID_RESPONSES_MB")

    def _next_victim(self, accounts: dict[str, tuple[int, int]], account: str) -> tuple[str, str, int] | None:
        """The account that is to lose a response: its name, the response's id and size."""
        limits, bounds = self._limits, self._leases.bounds()
        parts = {
            name: max(number / limits.max_count, size / limits.max_bytes)
            for name, (number, size) in accounts.items()
        }
        of_account = f"SELECT id, size FROM responses WHERE account = :account AND {NOT_RUNNING}"
        for name in sorted(parts, key=lambda name: -parts[name]):
            if parts[name] < parts[account]:
                return None
            values = {"account": name, **bounds}
            oldest = self._db.execute(f"{of_account} ORDER BY made LIMIT 1", values).fetchone()
            if oldest is not None:
                return name, *oldest
        return None

    def _delete_expired(self) -> None:
        values = {"oldest": self._now() - self._limits.max_age_s, **self._leases.bounds()}
        query = f"SELECT id FROM responses WHERE made <= :oldest AND {NOT_RUNNING}"
        expired = self._db.execute(query, values).fetchall()
        self._delete([row[0] for row in expired])

    def _delete(self, response_ids: list[str]) -> None:
        for response_id in response_ids:
            self._db.execute("DELETE FROM responses WHERE id = ?", (response_id,))
            self._db.execute("DELETE FROM events WHERE response = ?", (response_id,))
            self._db.execute("DELETE FROM item_places WHERE response = ?", (response_id,))


def _num_bytes(stored: StoredResponse) -> int:
    """What a response takes.  Clients choose the ids of items, and each is in a table and in its index."""
    places = sum(len(item_id) + PLACE_BYTES for item_id in stored.item_ids)
    return len(stored.body) + len(stored.items) + 2 * places
