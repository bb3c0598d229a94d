"""Pages of lists: the rows after the one at which the page before ended, in the order in which they came."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.base.errors import RequestError


@dataclass(frozen=True, slots=True)
class ListPage:
    """Which rows of a list a client wants: at most `limit` after the row with the id `after`."""

    limit: int
    after: str | None = None
    newest_first: bool = True


@dataclass(frozen=True, slots=True)
class RowList:
    """A list: the rows of `table`, which have a `number` and an `id`, for which the SQL in `scope` is true.

    `shown` leaves rows of the list out; a page also begins after one that is not shown any more.
    """

    table: str
    columns: str
    scope: str
    shown: str = "1"


def read_rows(
    db: sqlite3.Connection, rows: RowList, values: Mapping[str, Any], page: ListPage
) -> list[tuple[Any, ...]]:
    """The columns of a page's rows, and of one more where there is another page.

    `values` are the parameters of the list's conditions by name.  Raises RequestError for an unknown `after`.
    """
    past = ""
    if page.after is not None:
        number = _number_of(db, rows, {**values, "after": page.after})
        past = f" AND number {'<' if page.newest_first else '>'} {number}"
    order = "DESC" if page.newest_first else "ASC"
    query = (
        f"SELECT {rows.columns} FROM {rows.table} WHERE {rows.scope} AND {rows.shown}{past}"
        f" ORDER BY number {order} LIMIT :most"
    )
    return db.execute(query, {**values, "most": page.limit + 1}).fetchall()


def _number_of(db: sqlite3.Connection, rows: RowList, values: Mapping[str, Any]) -> int:
    query = f"SELECT number FROM {rows.table} WHERE id = :after AND {rows.scope}"
    row = db.execute(query, values).fetchone()
    if row is None:
        raise RequestError("`after` is no id of this list", field="after")
    return int(row[0])
