"""The documents and passages of an index in one SQLite file, with an index of their words (FTS5)."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.retrieval.cutting import Passage
from pipelines.retrieval.filters import Where

FILE = "passages.sqlite"
MAX_WORDS = 64
"""Words of a query that are looked for; further ones are left out."""
TABLES = """
CREATE TABLE documents (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, digest TEXT NOT NULL,
                        attributes TEXT NOT NULL);
CREATE TABLE passages (id INTEGER PRIMARY KEY, document INTEGER NOT NULL REFERENCES documents (id),
                       row INTEGER, start INTEGER NOT NULL, heading TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX passages_of_documents ON passages (document);
CREATE INDEX passages_by_row ON passages (row);
CREATE VIRTUAL TABLE words USING fts5 (text, heading, content = 'passages', content_rowid = 'id',
                                       tokenize = 'unicode61 remove_diacritics 2');
"""
FROM = "FROM passages JOIN documents ON documents.id = passages.document"
COLUMNS = (
    "passages.row, documents.name, passages.text, passages.heading, passages.start, documents.attributes"
)


@dataclass(frozen=True, slots=True)
class StoredPassage:
    """A passage with its place: it begins at the character `start` of its document's text."""

    row: int
    document: str
    text: str
    heading: str
    start: int
    attributes: dict[str, Any]


class PassageWriter:
    """Changes the passages of a version that is not published yet."""

    def __init__(self, folder: Path) -> None:
        """Opens the file, or makes it.  Raises sqlite3.Error."""
        path = folder / FILE
        is_new = not path.exists()
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")  # what is not whole is never published
        self._db.execute("PRAGMA synchronous = OFF")  # the version is synced before it is published
        if is_new:
            self._db.executescript(TABLES)
        self._db.execute("BEGIN")

    def digests(self) -> dict[str, str]:
        """The digest of each document by its name."""
        return dict(self._db.execute("SELECT name, digest FROM documents"))

    def remove(self, names: Iterable[str]) -> None:
        """Remove documents with their passages."""
        for name in names:
            (number,) = self._db.execute("SELECT id FROM documents WHERE name = ?", (name,)).fetchone()
            gone = self._db.execute(
                "SELECT id, text, heading FROM passages WHERE document = ?", (number,)
            ).fetchall()
            self._db.executemany(
                "INSERT INTO words (words, rowid, text, heading) VALUES ('delete', ?, ?, ?)", gone
            )
            self._db.execute("DELETE FROM passages WHERE document = ?", (number,))
            self._db.execute("DELETE FROM documents WHERE id = ?", (number,))

    def describe(self, name: str, digest: str, attributes: Mapping[str, Any]) -> None:
        """Give a document, where there is one of this name, other attributes."""
        values = (digest, json.dumps(dict(attributes), ensure_ascii=False), name)
        self._db.execute("UPDATE documents SET digest = ?, attributes = ? WHERE name = ?", values)

    def rows(self) -> NDArray[np.int64]:
        """The rows of the vectors of all passages, in order."""
        return np.array(
            [row for (row,) in self._db.execute("SELECT row FROM passages ORDER BY row")], np.int64
        )

    def number_rows(self) -> None:
        """Number the rows of the vectors from 0, in their order."""
        ids = [number for (number,) in self._db.execute("SELECT id FROM passages ORDER BY row")]
        self._db.executemany("UPDATE passages SET row = ? WHERE id = ?", enumerate(ids))

    def add(self, name: str, digest: str, attributes: Mapping[str, Any]) -> int:
        """A new document; its number."""
        number = self._db.execute(
            "INSERT INTO documents (name, digest, attributes) VALUES (?, ?, ?)",
            (name, digest, json.dumps(dict(attributes), ensure_ascii=False)),
        ).lastrowid
        assert number is not None
        return number

    def add_passages(self, document: int, first_row: int, passages: Sequence[Passage]) -> None:
        """Passages of a document, whose vectors are in the rows from `first_row` on."""
        for row, passage in enumerate(passages, first_row):
            number = self._db.execute(
                "INSERT INTO passages (document, row, start, heading, text) VALUES (?, ?, ?, ?, ?)",
                (document, row, passage.start, passage.heading, passage.text),
            ).lastrowid
            self._db.execute(
                "INSERT INTO words (rowid, text, heading) VALUES (?, ?, ?)",
                (number, passage.text, passage.heading),
            )

    def count(self) -> tuple[int, int]:
        """How many documents and passages there are."""
        (documents,) = self._db.execute("SELECT count(*) FROM documents").fetchone()
        (passages,) = self._db.execute("SELECT count(*) FROM passages").fetchone()
        return documents, passages

    def close(self) -> None:
        """Write all.  Raises sqlite3.Error."""
        self._db.execute("COMMIT")
        self._db.close()


class Passages:
    """The passages of a published version.  Several threads may use it, in turns of the caller's."""

    def __init__(self, folder: Path) -> None:
        """Raises sqlite3.Error where the file is damaged."""
        path = (folder / FILE).resolve()
        self._db = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
        try:
            self._db.execute(f"SELECT {COLUMNS} {FROM} LIMIT 1").fetchall()
        except BaseException:
            self._db.close()
            raise

    def at(self, rows: Sequence[int]) -> dict[int, StoredPassage]:
        """The passages in these rows."""
        marks = ", ".join("?" * len(rows))
        found = self._db.execute(f"SELECT {COLUMNS} {FROM} WHERE passages.row IN ({marks})", list(rows))
        return {passage.row: passage for passage in map(_passage, found)}

    def by_words(self, query: str, top: int, condition: Where | None = None) -> list[tuple[int, float]]:
        """(row, score) of the passages that hold words of the query, by BM25, the best first.

        A condition is on `documents.attributes`.
        """
        wanted = match_text(query)
        if not wanted:
            return []
        sql, values = condition or ("1", [])
        rows = self._db.execute(
            "SELECT passages.row, bm25(words) FROM words JOIN passages ON passages.id = words.rowid "
            "JOIN documents ON documents.id = passages.document "
            f"WHERE words MATCH ? AND {sql} ORDER BY bm25(words), passages.row LIMIT ?",
            [wanted, *values, top],
        )
        return [(row, -score) for row, score in rows]

    def allowed(self, condition: Where, count: int) -> NDArray[np.bool_]:
        """Which of `count` rows fulfil a condition: bool[count]."""
        sql, values = condition
        mask = np.zeros(count, np.bool_)
        mask[[row for (row,) in self._db.execute(f"SELECT passages.row {FROM} WHERE {sql}", values)]] = True
        return mask

    def documents(self) -> dict[str, int]:
        """How many passages each document has, by its name."""
        return dict(self._db.execute(f"SELECT documents.name, count(*) {FROM} GROUP BY documents.id"))

    def num_bytes(self) -> dict[str, int]:
        """How many bytes of text the passages of each document have, by its name."""
        rows = self._db.execute(
            f"SELECT documents.name, sum(length(CAST(passages.text AS BLOB))) {FROM} GROUP BY documents.id"
        )
        return dict(rows)

    def text_of(self, name: str) -> list[StoredPassage]:
        """The passages of a document in order; [] where there is none."""
        found = self._db.execute(
            f"SELECT {COLUMNS} {FROM} WHERE documents.name = ? ORDER BY passages.start", (name,)
        )
        return [_passage(columns) for columns in found]

    def close(self) -> None:
        self._db.close()


def _passage(columns: Sequence[Any]) -> StoredPassage:
    """A row of `COLUMNS`."""
    row, document, text, heading, start, attributes = columns
    return StoredPassage(row, document, text, heading, start, json.loads(attributes))


def match_text(query: str) -> str:
    """The words of a query in FTS5's language: each quoted, any of them."""
    words = dict.fromkeys(re.findall(r"\w+", query.lower()))
    return " OR ".join(f'"{word}"' for word in list(words)[:MAX_WORDS])
