"""The documents and passages of an index, each part of them in a SQLite file with its words' dictionary."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.base.errors import RequestError
from pipelines.retrieval.cutting import Passage
from pipelines.retrieval.filters import Where
from pipelines.retrieval.index_parts import Described, Removed, mark, part_file, read_described, read_removed
from pipelines.retrieval.words import WordsPart, WordsWriter

FILE = "passages.sqlite"
TABLES = """
CREATE TABLE documents (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, digest TEXT NOT NULL,
                        attributes TEXT NOT NULL, first INTEGER NOT NULL, passages INTEGER NOT NULL,
                        bytes INTEGER NOT NULL);
CREATE TABLE passages (row INTEGER PRIMARY KEY, document INTEGER NOT NULL REFERENCES documents (id),
                       start INTEGER NOT NULL, heading TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE words (word TEXT PRIMARY KEY, first INTEGER NOT NULL, end INTEGER NOT NULL) WITHOUT ROWID;
"""
DOCUMENT = "id, name, digest, attributes, first, passages, bytes"
DESCRIBED_AGAIN = """
CREATE TEMP TABLE described (id INTEGER PRIMARY KEY, digest TEXT NOT NULL, attributes TEXT NOT NULL);
CREATE TEMP VIEW documents AS
SELECT written.id AS id, name, coalesce(described.digest, written.digest) AS digest,
       coalesce(described.attributes, written.attributes) AS attributes, first, passages, bytes
FROM main.documents AS written LEFT JOIN described ON described.id = written.id;
"""
"""Queries read this view in place of the table, where documents were described again."""
STEPS, MAX_STEPS = 100_000, 1 << 27
"""Instructions of SQLite after which they are counted, and how many a condition may take over all parts."""
MAX_ASKED = 500
"""Values that one query asks for: SQLite has a bound."""


@dataclass(frozen=True, slots=True)
class StoredPassage:
    """A passage with its place: it begins at the character `start` of its document's text."""

    row: int
    document: str
    text: str
    heading: str
    start: int
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document of a part: its passages are `passages` rows from `first` on, with `bytes` bytes of text.

    `attributes` is JSON.
    """

    id: int
    name: str
    digest: str
    attributes: str
    first: int
    passages: int
    bytes: int


class PassageWriter:
    """Writes the documents, passages and words of a part."""

    def __init__(self, folder: Path, part: int) -> None:
        """Raises sqlite3.Error."""
        self._db = sqlite3.connect(
            part_file(folder, part, FILE), isolation_level=None, check_same_thread=False
        )
        self._db.execute("PRAGMA journal_mode = OFF")  # what is not whole is never published
        self._db.execute("PRAGMA synchronous = OFF")  # the version is synced before it is published
        self._db.executescript(TABLES)
        self._db.execute("BEGIN")
        self._words = WordsWriter(folder, part)
        self.num_documents = self.num_passages = 0

    def add(self, name: str, digest: str, attributes: str, passages: Sequence[Passage]) -> None:
        """A document, whose passages are in the next rows; `attributes` is JSON.  Raises sqlite3.Error."""
        num_bytes = sum(len(passage.text.encode()) for passage in passages)
        number, first = self.num_documents, self.num_passages
        self._db.execute(
            f"INSERT INTO documents ({DOCUMENT}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (number, name, digest, attributes, first, len(passages), num_bytes),
        )
        self._db.executemany(
            "INSERT INTO passages (row, document, start, heading, text) VALUES (?, ?, ?, ?, ?)",
            (
                (row, number, passage.start, passage.heading, passage.text)
                for row, passage in enumerate(passages, first)
            ),
        )
        for passage in passages:
            self._words.add(passage.text, passage.heading)
        self.num_documents += 1
        self.num_passages += len(passages)

    def close(self) -> None:
        """Write all.  Raises sqlite3.Error and OSError."""
        self._db.executemany("INSERT INTO words (word, first, end) VALUES (?, ?, ?)", self._words.write())
        self._db.execute("COMMIT")
        self._db.close()

    def abandon(self) -> None:
        """Close the file of a part that is not published."""
        self._db.close()


class PassagePart:
    """The documents and passages of a part, without those that were removed.

    `num_documents` counts the removed ones too.  Several threads may use it, one at a time.
    """

    def __init__(self, folder: Path, part: int, rows: int) -> None:
        """`rows`: how many the part has.  Raises OSError, sqlite3.Error and ValueError for damaged files."""
        path = part_file(folder, part, FILE).resolve()
        self.rows = rows
        self.removed = read_removed(folder, part)
        self.described = read_described(folder, part)
        self._gone = set(self.removed[:, 0].tolist())
        self._db = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
        try:
            self._db.execute("SELECT row, word FROM passages, words LIMIT 1").fetchall()
            last = self._db.execute("SELECT coalesce(max(id), -1) FROM documents").fetchone()[0]
            self.num_documents = last + 1
            if self.described:
                self._read_described(self.described)
            self.words = WordsPart(folder, part, rows, self._places)
        except BaseException:
            self._db.close()
            raise

    def _read_described(self, described: Described) -> None:
        self._db.execute("PRAGMA temp_store = MEMORY")
        self._db.executescript(DESCRIBED_AGAIN)
        rows = ((number, *texts) for number, texts in described.items())
        self._db.executemany("INSERT INTO described VALUES (?, ?, ?)", rows)
        self._db.commit()

    def without(self, removed: Iterable[StoredDocument]) -> Removed:
        """The documents that are removed, these too."""
        new = [(document.id, document.first, document.passages) for document in removed]
        return np.concatenate([self.removed, np.array(new, np.int32).reshape(-1, 3)])

    def documents(self, names: Iterable[str] | None = None) -> Iterator[StoredDocument]:
        """The documents of these names, or all in the order of their rows."""
        if names is None:
            rows: Iterable[Any] = self._db.execute(f"SELECT {DOCUMENT} FROM documents ORDER BY id")
        else:
            rows = self._asked(f"SELECT {DOCUMENT} FROM documents WHERE name IN ({{}})", [*names])
        for columns in rows:
            if columns[0] not in self._gone:
                yield StoredDocument(*columns)

    def passages_of(self, document: StoredDocument) -> list[Passage]:
        """The passages of a document in order."""
        rows = self._db.execute(
            "SELECT text, start, heading FROM passages WHERE row >= ? AND row < ? ORDER BY row",
            (document.first, document.first + document.passages),
        )
        return [Passage(*columns) for columns in rows]

    def at(self, rows: Sequence[int]) -> Iterator[StoredPassage]:
        """The passages in these rows, in no order."""
        passages = self._asked(
            "SELECT passages.row, documents.name, text, heading, start, attributes FROM passages "
            "JOIN documents ON documents.id = passages.document WHERE passages.row IN ({})",
            rows,
        )
        for row, document, text, heading, start, attributes in passages:
            yield StoredPassage(row, document, text, heading, start, json.loads(attributes))

    def mark_allowed(self, condition: Where | None, mask: NDArray[np.bool_], work: FilterWork) -> None:
        """Set which rows fulfil a condition on `documents`: bool[rows].  Raises ValueError for rows that the
        part has not, which it is damaged to have, and RequestError for a condition that takes too much work.
        """
        mask[:] = condition is None
        if condition is not None:
            sql, values = condition
            self._db.set_progress_handler(work.is_too_much, STEPS)
            try:
                rows = self._db.execute(f"SELECT first, passages FROM documents WHERE {sql}", values)
                mark(mask, np.fromiter(chain.from_iterable(rows), np.int64).reshape(-1, 2), value=True)
            except sqlite3.OperationalError as error:
                raise work.refusal() or error from error
            finally:
                self._db.set_progress_handler(None, 0)
        mark(mask, self.removed[:, 1:], value=False)

    def _places(self, words: Sequence[str]) -> dict[str, tuple[int, int]]:
        found = self._asked("SELECT word, first, end FROM words WHERE word IN ({})", words)
        return {word: (first, end) for word, first, end in found}

    def _asked(self, sql: str, values: Sequence[Any]) -> Iterator[Any]:
        """The rows of a query that asks for each of many values."""
        for start in range(0, len(values), MAX_ASKED):
            group = values[start : start + MAX_ASKED]
            yield from self._db.execute(sql.format(", ".join("?" * len(group))), list(group))

    def close(self) -> None:
        self._db.close()


class FilterWork:
    """Counts what a condition takes over all parts, and ends it where that is too much."""

    def __init__(self, most: int = MAX_STEPS) -> None:
        self._left = most

    def is_too_much(self) -> bool:
        """Called by SQLite after each STEPS instructions; true ends the query."""
        self._left -= STEPS
        return self._left < 0

    def refusal(self) -> RequestError | None:
        """What ended the query, where that was here."""
        if self._left >= 0:
            return None
        return RequestError(
            "`filters` has too many conditions for the number of documents; send fewer, or search fewer",
            "filters",
        )


class Passages:
    """The passages of a published version.  Several threads may use it, one at a time."""

    def __init__(self, folder: Path, counts: Sequence[int]) -> None:
        """`counts`: the rows of each part.  Raises OSError, sqlite3.Error and ValueError where damaged."""
        self.parts: list[PassagePart] = []
        try:
            for part, rows in enumerate(counts):
                self.parts.append(PassagePart(folder, part, rows))
        except BaseException:
            self.close()
            raise
        self.firsts = np.cumsum([0, *counts]).tolist()
        self.has_removed = any(len(part.removed) for part in self.parts)

    def at(self, rows: Sequence[int]) -> dict[int, StoredPassage]:
        """The passages in these rows."""
        wanted: dict[int, list[int]] = {}
        for row, part in zip(rows, np.searchsorted(self.firsts, rows, "right") - 1, strict=True):
            wanted.setdefault(int(part), []).append(row - self.firsts[part])
        return {
            self.firsts[part] + passage.row: passage
            for part, own in wanted.items()
            for passage in self.parts[part].at(own)
        }

    def allowed(self, condition: Where | None) -> NDArray[np.bool_]:
        """Which rows are not removed and fulfil a condition on `documents`: bool[rows].

        Raises RequestError for a condition that takes too much work, and ValueError for a damaged index.
        """
        mask, work = np.empty(self.firsts[-1], np.bool_), FilterWork()
        for part, first in zip(self.parts, self.firsts, strict=False):
            part.mark_allowed(condition, mask[first : first + part.rows], work)
        return mask

    def sizes(self, names: Iterable[str] | None = None) -> Mapping[str, tuple[int, int]]:
        """How many passages, and bytes of text, the documents of these names have, or all."""
        wanted = None if names is None else [*names]
        return {
            document.name: (document.passages, document.bytes)
            for part in self.parts
            for document in part.documents(wanted)
        }

    def text_of(self, name: str) -> list[Passage]:
        """The passages of a document in order; [] where there is none."""
        return [
            passage
            for part in self.parts
            for document in part.documents([name])
            for passage in part.passages_of(document)
        ]

    def close(self) -> None:
        for part in self.parts:
            part.close()
