"""The SQLite file of the response store: its schema, the row type, and opening a connection."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from server.sqlite import connection

SCHEMA_VERSION = 3
"""Version of the tables; a file of an earlier one gets the new tables, one of a later version is refused."""
TABLES = """
CREATE TABLE IF NOT EXISTS responses (
    id TEXT PRIMARY KEY,
    status TEXT NOT NULL,
    body BLOB NOT NULL,
    items BLOB NOT NULL,
    background INTEGER NOT NULL,
    owner TEXT,
    beat REAL NOT NULL,
    made REAL NOT NULL,
    size INTEGER NOT NULL,
    account TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS by_age ON responses (made);
CREATE INDEX IF NOT EXISTS by_account ON responses (account, made);
CREATE INDEX IF NOT EXISTS by_owner ON responses (owner) WHERE owner IS NOT NULL;
CREATE TABLE IF NOT EXISTS events (
    response TEXT NOT NULL,
    number INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (response, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS item_places (
    item TEXT NOT NULL,
    response TEXT NOT NULL,
    account TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (item, account)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_response ON item_places (response);
CREATE TABLE IF NOT EXISTS shares (
    account TEXT PRIMARY KEY,
    number INTEGER NOT NULL,
    size INTEGER NOT NULL
) WITHOUT ROWID;
INSERT OR REPLACE INTO shares SELECT account, count(*), sum(size) FROM responses GROUP BY account;
CREATE TRIGGER IF NOT EXISTS added AFTER INSERT ON responses BEGIN
    INSERT OR IGNORE INTO shares VALUES (NEW.account, 0, 0);
    UPDATE shares SET number = number + 1, size = size + NEW.size WHERE account = NEW.account;
END;
CREATE TRIGGER IF NOT EXISTS grown AFTER UPDATE OF size ON responses BEGIN
    UPDATE shares SET size = size + NEW.size - OLD.size WHERE account = NEW.account;
END;
CREATE TRIGGER IF NOT EXISTS dropped AFTER DELETE ON responses BEGIN
    UPDATE shares SET number = number - 1, size = size - OLD.size WHERE account = OLD.account;
    DELETE FROM shares WHERE account = OLD.account AND number = 0;
END;
"""
"""`shares` has running sums of each account, so that checking the limits needs no scan of all responses."""

FROM_VERSION_1 = """
ALTER TABLE responses ADD COLUMN account TEXT NOT NULL DEFAULT '';
ALTER TABLE item_places RENAME TO old_places;
DROP INDEX by_response;
"""
"""Older tables do not say which key made what is stored: any key may read it until it expires."""
FROM_VERSION_2 = """
DROP TRIGGER added;
DROP TRIGGER grown;
DROP TRIGGER dropped;
DROP TABLE totals;
"""
ITEMS_FROM_VERSION_1 = """
INSERT INTO item_places (item, response) SELECT item, response FROM old_places;
DROP TABLE old_places;
"""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """One stored response: `body` is the response as JSON, `items` the model's input items as JSON.

    `account` is whose it is: a digest of the API key that made it, "" for everybody's.
    """

    id: str
    status: str
    body: bytes
    items: bytes
    background: bool = False
    owner: str | None = None  # id of the worker that computes it; None once it has ended
    item_ids: tuple[str, ...] = ()
    account: str = ""


def connect(path: Path | None) -> sqlite3.Connection:
    """Open the file, or tables in this process's memory when `path` is None.

    Raises sqlite3.Error and OSError.
    """
    return connection.connect(path, SCHEMA_VERSION, _statements, older=(1, 2))


def _statements(version: int) -> str:
    if version == 1:
        return FROM_VERSION_1 + TABLES + ITEMS_FROM_VERSION_1
    return FROM_VERSION_2 + TABLES if version == 2 else TABLES
