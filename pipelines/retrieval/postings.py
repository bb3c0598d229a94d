"""Sparse vectors of an index by term: the rows that hold a term, with their weights; searched exactly.

A term is a number, as an id of the model's vocabulary.  A search reads the terms of its query alone.  The
files are in parts, which never change: several versions may share them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.retrieval.dense_vectors import Floats, Rows, largest, mapped, part_file, share_parts
from pipelines.values.node_values import SparseVectors

TERMS, ENDS, ROWS, WEIGHTS = "terms.bin", "ends.bin", "rows.bin", "weights.bin"
Ids = NDArray[np.int32]


class PostingsWriter:
    """Collects the sparse vectors of a part in memory: 12 bytes for each number that is not 0.

    `count` is how many numbers the new version has, those of earlier parts too.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._part = self.count = 0
        self._new: list[tuple[Ids, Ids, Floats]] = []  # terms, rows, weights

    def share(self, postings: Postings) -> None:
        """Begin with all rows of an earlier version: its parts are parts of this one too.  Raises OSError."""
        self._part, self.count = len(postings.parts), postings.num_postings
        share_parts(postings.folder, self._folder, self._part, (TERMS, ENDS, ROWS, WEIGHTS))

    def append(self, first_row: int, vectors: SparseVectors) -> None:
        """Add vectors, whose rows count from `first_row`.  Raises ValueError for NaN and infinity."""
        if not np.isfinite(vectors.weights).all():
            raise ValueError("the model gave a vector with numbers that are not finite")
        rows = np.repeat(np.arange(first_row, first_row + len(vectors), dtype=np.int32), vectors.lengths)
        self._add(vectors.ids, rows, vectors.weights)

    def copy(self, postings: Postings, rows: Rows) -> None:
        """Add rows of an earlier version, in ascending order; they are numbered from 0."""
        numbers = np.full(postings.count, -1, np.int32)
        numbers[rows] = np.arange(len(rows), dtype=np.int32)
        for part in postings.parts:
            terms = np.repeat(part.terms, np.diff(part.ends, prepend=0))
            new_rows = numbers[part.rows]
            stays = new_rows >= 0
            self._add(terms[stays], new_rows[stays], part.weights[stays])

    def _add(self, terms: Ids, rows: Ids, weights: Floats) -> None:
        self._new.append((terms, rows, weights))
        self.count += len(terms)

    def write(self) -> None:
        """Write the new part, if it has numbers: int32 terms in ascending order, int64 ends of their
        postings, int32 rows, float32 weights.  Raises OSError.
        """
        if not any(len(terms) for terms, _, _ in self._new):
            return
        terms, rows, weights = (np.concatenate(column) for column in zip(*self._new, strict=True))
        order = np.lexsort((rows, terms))
        starts = np.flatnonzero(np.diff(terms[order], prepend=-1))
        ends = np.append(starts[1:], len(terms))[: len(starts)].astype(np.int64)
        files = {TERMS: terms[order][starts], ENDS: ends, ROWS: rows[order], WEIGHTS: weights[order]}
        for name, values in files.items():
            part_file(self._folder, self._part, name).write_bytes(values.tobytes())


class Postings:
    """The sparse vectors of a version, in parts; `count` is the number of its rows."""

    def __init__(self, folder: Path, count: int, num_postings: int) -> None:
        """Raises OSError, and ValueError where the files are not those of `num_postings` numbers."""
        self.folder, self.count, self.num_postings = folder, count, num_postings
        num_parts = len([*folder.glob(f"*-{TERMS}")])
        self.parts = [PostingsPart(folder, number) for number in range(num_parts)]
        held = sum(len(part.rows) for part in self.parts)
        if held != num_postings:
            raise ValueError(
                f"{folder} has {held} numbers of sparse vectors, not {num_postings}: the index is damaged"
            )

    def best(
        self, terms: Ids, weights: Floats, top: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[Rows, Floats]:
        """The rows with the largest products with a query, the best first, and the products: those above 0.

        `terms` and `weights` are the numbers of the query that are not 0; `allowed`: bool[n], the rows that
        may be chosen.
        """
        scores = np.zeros(self.count, np.float32)
        for part in self.parts:
            part.add_products(terms, weights, scores)
        if allowed is not None:
            scores[~allowed] = 0
        matching = np.flatnonzero(scores > 0)
        rows: Rows = matching[largest(scores[matching], top)]
        order = np.lexsort((rows, -scores[rows]))
        return rows[order], scores[rows[order]]


class PostingsPart:
    """The sparse vectors of some rows, mapped from files."""

    def __init__(self, folder: Path, number: int) -> None:
        """Raises OSError, and ValueError where the lengths of the files do not belong together."""
        terms = part_file(folder, number, TERMS)
        num_terms = terms.stat().st_size // 4
        self.terms: Ids = mapped(terms, np.int32, (num_terms,))
        self.ends: Rows = mapped(part_file(folder, number, ENDS), np.int64, (num_terms,))
        num_postings = int(self.ends[-1]) if num_terms else 0
        self.rows: Ids = mapped(part_file(folder, number, ROWS), np.int32, (num_postings,))
        self.weights: Floats = mapped(part_file(folder, number, WEIGHTS), np.float32, (num_postings,))

    def add_products(self, terms: Ids, weights: Floats, scores: Floats) -> None:
        """Add the products with a query to the scores of all rows, float32[n]."""
        for term, weight in zip(terms.tolist(), weights.tolist(), strict=True):
            holding, own = self._of(term)
            scores[holding] += np.float32(weight) * own

    def _of(self, term: int) -> tuple[Ids, Floats]:
        """The rows of a term, each once, and their weights."""
        place = int(np.searchsorted(self.terms, term))
        if place == len(self.terms) or self.terms[place] != term:
            return self.rows[:0], self.weights[:0]
        span = slice(int(self.ends[place - 1]) if place else 0, int(self.ends[place]))
        return self.rows[span], self.weights[span]
