"""The rows of vector stores and of their files in SQLite."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from server.sqlite.pages import RowList

StoreFileStatus = Literal["in_progress", "completed", "cancelled", "failed"]

TABLES = """
CREATE TABLE stores (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    account TEXT NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    model TEXT NOT NULL,
    metadata TEXT NOT NULL,
    days INTEGER,
    created REAL NOT NULL,
    active REAL NOT NULL,
    expired INTEGER NOT NULL DEFAULT 0,
    later REAL NOT NULL DEFAULT 0,
    owner TEXT,
    beat REAL NOT NULL DEFAULT 0
);
CREATE INDEX stores_of_account ON stores (account, number);
CREATE TABLE store_files (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    store INTEGER NOT NULL,
    id TEXT NOT NULL,
    batch TEXT,
    filename TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'in_progress',
    attributes TEXT NOT NULL,
    chunks TEXT NOT NULL,
    created REAL NOT NULL,
    usage INTEGER NOT NULL DEFAULT 0,
    error TEXT NOT NULL DEFAULT 'null',
    tries INTEGER NOT NULL DEFAULT 0,
    described INTEGER NOT NULL DEFAULT 1,
    UNIQUE (store, id)
);
CREATE INDEX store_files_waiting ON store_files (store) WHERE status = 'in_progress' OR NOT described;
CREATE TABLE removed_files (store INTEGER NOT NULL, id TEXT NOT NULL, PRIMARY KEY (store, id));
CREATE TABLE file_batches (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    store INTEGER NOT NULL,
    created REAL NOT NULL,
    cancelled INTEGER NOT NULL DEFAULT 0
);
"""
"""A file of `removed_files` may have passages in the index, and is not in the store any more.  The index of
one whose row is not `described` has its attributes from before.
"""
STORE_COLUMNS = (
    "number, id, account, name, description, model, metadata, days, created, active, expired, "
    "(SELECT coalesce(sum(usage), 0) FROM store_files WHERE store = stores.number)"
)
FILE_COLUMNS = "number, id, filename, status, attributes, chunks, created, usage, error, tries"
STORES_OF_ACCOUNT = RowList("stores", STORE_COLUMNS, scope="account = :account")
FILES_OF_STORE = RowList(
    "store_files",
    FILE_COLUMNS,
    scope="store = :store AND coalesce(:batch = batch, :batch IS NULL)",
    shown="coalesce(:status = status, 1)",
)
"""Files of a store, or of one batch of them; those of a status, or all."""


@dataclass(frozen=True, slots=True)
class StoreRow:
    """A store of `account`; times in s of the wall clock.  It expires after `days` without use."""

    number: int
    id: str
    account: str
    name: str
    description: str | None
    model: str
    metadata: dict[str, str] | None
    days: int | None
    created: float
    active: float
    expired: bool
    usage: int


@dataclass(frozen=True, slots=True)
class StoreFileRow:
    """A file of a store: `chunks` are the tokens of its passages and of what they repeat; None: as usual.

    `error` is a code and a message.
    """

    number: int
    id: str
    filename: str
    status: StoreFileStatus
    attributes: dict[str, Any]
    chunks: tuple[int, int] | None
    created: float
    usage: int
    error: tuple[str, str] | None
    tries: int


@dataclass(frozen=True, slots=True)
class FileBatchRow:
    number: int
    id: str
    store: int
    created: float
    cancelled: bool


@dataclass(frozen=True, slots=True)
class NewStoreFile:
    """A file that is added to a store."""

    id: str
    filename: str
    attributes: dict[str, Any]
    chunks: tuple[int, int] | None


def store_row(columns: tuple[Any, ...]) -> StoreRow:
    """A row of `STORE_COLUMNS`."""
    names = StoreRow.__dataclass_fields__
    values = dict(zip(names, columns, strict=True))
    return StoreRow(
        **{**values, "metadata": json.loads(values["metadata"]), "expired": bool(values["expired"])}
    )


def store_file_row(columns: tuple[Any, ...]) -> StoreFileRow:
    """A row of `FILE_COLUMNS`."""
    number, file_id, filename, status, attributes, chunks, created, usage, error, tries = columns
    lists = (json.loads(text) for text in (chunks, error))
    chunk_tokens, reason = (None if values is None else tuple(values) for values in lists)
    return StoreFileRow(
        number,
        file_id,
        filename,
        status,
        json.loads(attributes),
        chunk_tokens,
        created,
        usage,
        reason,
        tries,
    )
