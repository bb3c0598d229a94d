"""The rows of batches and of their results: states, owners, counts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from server.apis.batches.batch_models import CANCELLABLE, UNFINISHED, Batch, RequestTotals, Status
from server.sqlite.leases import NOT_RUNNING, Leases
from server.sqlite.pages import ListPage, RowList, read_rows

TABLES = """
CREATE TABLE IF NOT EXISTS batches (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    account TEXT NOT NULL,
    status TEXT NOT NULL,
    body BLOB NOT NULL,
    input_file TEXT NOT NULL,
    output_s REAL,
    expires REAL NOT NULL,
    total INTEGER NOT NULL DEFAULT 0,
    completed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    size INTEGER NOT NULL DEFAULT 0,
    ends_as TEXT NOT NULL DEFAULT 'completed',
    owner TEXT,
    beat REAL NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS batches_of_account ON batches (account, number);
CREATE TABLE IF NOT EXISTS results (
    batch INTEGER NOT NULL,
    line INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (batch, line)
);
"""
"""A line has one result at most; those of a batch go when they are in its files."""
COLUMNS = "number, account, status, body, output_s, expires, total, completed, failed, ends_as"
OF_ACCOUNT = RowList("batches", COLUMNS, scope="account = :account")
ACTIVE = f"status IN ({', '.join(repr(status) for status in UNFINISHED)})"

SHARES = (
    f"WITH shares AS MATERIALIZED (SELECT account, sum(NOT {NOT_RUNNING}) AS runs, count(*) AS total,"
    f" max(beat) AS served FROM batches WHERE {ACTIVE} GROUP BY account)"
)
"""For each account with batches that have not ended: how many run, how many there are, when one
ran last.  Parameters: those of `Leases.bounds`.
"""


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """`output_s`: how long its files of results are stored, where the client said so.

    `ends_as` is the status that it will have when its files are written.
    """

    number: int
    account: str
    batch: Batch
    output_s: float | None
    expires: float
    ends_as: Status


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a line: `data` is its line in a file of results."""

    line: int
    succeeded: bool
    data: bytes


class BatchTable:
    """Does no transactions: callers that write are inside one.  `ticks` is the clock of heartbeats."""

    def __init__(self, db: sqlite3.Connection, ticks: Callable[[], float]) -> None:
        self._db = db
        self._leases = Leases(db, "batches", ticks)

    def add(self, batch: Batch, account: str, output_s: float | None) -> None:
        self._db.execute(
            "INSERT INTO batches (id, account, status, body, input_file, output_s, expires)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                batch.id,
                account,
                batch.status,
                batch.model_dump_json(),
                batch.input_file_id,
                output_s,
                batch.expires_at,
            ),
        )

    def get(self, batch_id: str, account: str) -> StoredBatch | None:
        return self._one("id = ? AND account = ?", (batch_id, account))

    def page(self, account: str, page: ListPage) -> list[Batch]:
        """Batches of the account, as `read_rows` gives them."""
        rows = read_rows(self._db, OF_ACCOUNT, {"account": account}, page)
        return [_stored(row).batch for row in rows]

    def num_unfinished(self, account: str) -> int:
        query = f"SELECT count(*) FROM batches WHERE account = ? AND {ACTIVE}"
        return int(self._db.execute(query, (account,)).fetchone()[0])

    def is_input(self, file_id: str) -> bool:
        """Whether a batch that has not ended reads the file."""
        query = f"SELECT 1 FROM batches WHERE input_file = ? AND {ACTIVE}"
        return self._db.execute(query, (file_id,)).fetchone() is not None

    def num_bytes(self, account: str | None = None) -> int:
        """Bytes of an account's results that are in no file yet; None: of all."""
        query = "SELECT coalesce(sum(size), 0) FROM batches WHERE coalesce(? = account, 1)"
        return int(self._db.execute(query, (account,)).fetchone()[0])

    def remove_oldest(self, max_count: int) -> None:
        """Remove the oldest batches that have ended, beyond `max_count`: those of who has the most."""
        (count,) = self._db.execute("SELECT count(*) FROM batches").fetchone()
        ended = f"FROM batches WHERE NOT {ACTIVE}"
        most = f"SELECT account {ended} GROUP BY account ORDER BY count(*) DESC LIMIT 1"
        oldest = f"SELECT number {ended} AND account = ({most}) ORDER BY number LIMIT ?"
        self._db.execute(f"DELETE FROM batches WHERE number IN ({oldest})", (max(0, count - max_count),))

    # --- owners

    def has_unowned(self) -> bool:
        return self._leases.first(ACTIVE, {}, "number") is not None

    def claim(self, owner: str) -> StoredBatch | None:
        """A batch that has work and no live owner; `owner` has it from now on.

        Of the account with the fewest that run, then of the one whose last run is longest ago, the oldest.
        """
        of_account = "FROM shares WHERE shares.account = batches.account"
        turn = f"(SELECT runs {of_account}), (SELECT served {of_account}), number"
        number = self._leases.first(ACTIVE, {}, turn, SHARES)
        if number is None:
            return None
        self._leases.take(number, owner)
        return self.owned(number, owner)

    def gives_way(self, account: str) -> bool:
        """Whether a batch waits of another account, of which fewer run than of this one."""
        query = (
            f"{SHARES} SELECT 1 FROM shares WHERE runs < total AND account != :account"
            " AND runs < (SELECT runs FROM shares WHERE account = :account) LIMIT 1"
        )
        values = {"account": account, **self._leases.bounds()}
        return self._db.execute(query, values).fetchone() is not None

    def heartbeat(self, owner: str, numbers: Iterable[int]) -> dict[int, str]:
        """Renew the owner's leases on these batches; the number of each batch that it has → its status."""
        self._leases.renew(owner, numbers)
        rows = self._db.execute("SELECT number, status FROM batches WHERE owner = ?", (owner,))
        return dict(rows.fetchall())

    def release(self, owner: str, number: int | None = None) -> None:
        """Another worker may have this batch of the owner's now, or all of them."""
        self._leases.release(owner, number)

    # --- progress

    def owned(self, number: int, owner: str) -> StoredBatch | None:
        """A batch, if `owner` has it."""
        return self._one("number = ? AND owner = ?", (number, owner))

    def change(self, stored: StoredBatch, status: Status, now: float, **fields: Any) -> None:
        """Give a batch a status, with its time, and other fields."""
        batch = stored.batch.model_copy(update={**fields, "status": status, f"{status}_at": int(now)})
        self._db.execute(
            "UPDATE batches SET status = ?, body = ?, total = ? WHERE number = ?",
            (status, batch.model_dump_json(), batch.request_counts.total, stored.number),
        )

    def end_as(self, number: int, status: Status) -> None:
        """What a batch will be when its files are written."""
        self._db.execute("UPDATE batches SET ends_as = ? WHERE number = ?", (status, number))

    def ended(self, number: int) -> None:
        """Removes the results of a batch: they are in its files."""
        self._db.execute("DELETE FROM results WHERE batch = ?", (number,))
        self._db.execute("UPDATE batches SET owner = NULL, size = 0 WHERE number = ?", (number,))

    def add_results(self, number: int, owner: str, results: Iterable[Result]) -> bool:
        """Store results, of each line the first one; False, with nothing written, where `owner` lost it."""
        if self.owned(number, owner) is None:
            return False
        for result in results:
            done = self._db.execute(
                "INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?)",
                (number, result.line, result.succeeded, result.data),
            )
            if done.rowcount:
                counted = "completed" if result.succeeded else "failed"
                self._db.execute(
                    f"UPDATE batches SET {counted} = {counted} + 1, size = size + ? WHERE number = ?",
                    (len(result.data), number),
                )
        return True

    def done_lines(self, number: int) -> set[int]:
        rows = self._db.execute("SELECT line FROM results WHERE batch = ?", (number,))
        return {row[0] for row in rows.fetchall()}

    def results(self, number: int, after: int, limit: int) -> list[Result]:
        """The next results in the order of lines."""
        rows = self._db.execute(
            "SELECT line, succeeded, data FROM results WHERE batch = ? AND line > ? ORDER BY line LIMIT ?",
            (number, after, limit),
        )
        return [Result(line, bool(succeeded), data) for line, succeeded, data in rows.fetchall()]

    def _one(self, where: str, values: Iterable[Any]) -> StoredBatch | None:
        query = f"SELECT {COLUMNS} FROM batches WHERE {where}"
        row = self._db.execute(query, tuple(values)).fetchone()
        return None if row is None else _stored(row)


def can_be_cancelled(batch: Batch) -> bool:
    return batch.status in CANCELLABLE


def _stored(row: tuple[Any, ...]) -> StoredBatch:
    number, account, status, body, output_s, expires, total, completed, failed, ends_as = row
    batch = Batch.model_validate_json(body)
    counts = RequestTotals(total=total, completed=completed, failed=failed)
    batch = batch.model_copy(update={"status": status, "request_counts": counts})
    return StoredBatch(number, account, batch, output_s, expires, ends_as)
