"""Sparse vectors of an index by term: the rows that hold a term, with their weights; searched exactly.

A term is a number, as an id of the model's vocabulary.  A search reads the terms of its query alone.  The
files are in parts, which never change: several versions may share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.retrieval.dense_vectors import Floats, Rows, largest, mapped
from pipelines.retrieval.index_parts import part_file
from pipelines.values.node_values import SparseVectors

TERMS, ENDS, ROWS, WEIGHTS = "terms.bin", "ends.bin", "rows.bin", "weights.bin"
Ids = NDArray[np.int32]


class PostingsWriter:
    """Collects the sparse vectors of a part in memory: 12 bytes for each number that is not 0, of which there
    are `count`.
    """

    def __init__(self, folder: Path, part: int = 0) -> None:
        self._folder, self._part = folder, part
        self.count = 0
        self._new: list[tuple[Ids, Ids, Floats]] = []  # terms, rows, weights

    def append(self, first_row: int, vectors: SparseVectors) -> None:
        """Add vectors, whose rows count from `first_row`.  Raises ValueError for NaN and infinity."""
        if not np.isfinite(vectors.weights).all():
            raise ValueError("the model gave a vector with numbers that are not finite")
        rows = np.repeat(np.arange(first_row, first_row + len(vectors), dtype=np.int32), vectors.lengths)
        self._add(vectors.ids, rows, vectors.weights)

    def copy(self, first_row: int, part: PostingsPart, rows: Rows) -> None:
        """Add rows of a part of an earlier version, which is read whole; they count from `first_row`."""
        numbers = np.full(part.count, -1, np.int32)
        numbers[rows] = np.arange(first_row, first_row + len(rows), dtype=np.int32)
        new_rows = numbers[part.rows]
        stays = new_rows >= 0
        terms = np.repeat(part.terms, np.diff(part.ends, prepend=0))
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

    def __init__(self, folder: Path, counts: Sequence[int], num_postings: int) -> None:
        """`counts`: the rows of each part.  Raises OSError, and ValueError where the files are not those of
        `num_postings` numbers.
        """
        self.count, self.num_postings = sum(counts), num_postings
        self.parts = [PostingsPart(folder, number, count) for number, count in enumerate(counts)]
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
        first = 0
        for part in self.parts:
            part.add_products(terms, weights, scores[first : first + part.count])
            first += part.count
        if allowed is not None:
            scores[~allowed] = 0
        matching = np.flatnonzero(scores > 0)
        rows: Rows = matching[largest(scores[matching], top)]
        order = np.lexsort((rows, -scores[rows]))
        return rows[order], scores[rows[order]]


class PostingsPart:
    """The sparse vectors of a part of `count` rows, mapped from files; a part without any has none."""

    def __init__(self, folder: Path, number: int, count: int) -> None:
        """Raises OSError, and ValueError where the lengths of the files do not belong together."""
        self.count = count
        terms = part_file(folder, number, TERMS)
        num_terms = terms.stat().st_size // 4 if terms.exists() else 0
        self.terms: Ids = mapped(terms, np.int32, (num_terms,))
        self.ends: Rows = mapped(part_file(folder, number, ENDS), np.int64, (num_terms,))
        num_postings = int(self.ends[-1]) if num_terms else 0
        self.rows: Ids = mapped(part_file(folder, number, ROWS), np.int32, (num_postings,))
        self.weights: Floats = mapped(part_file(folder, number, WEIGHTS), np.float32, (num_postings,))

    def add_products(self, terms: Ids, weights: Floats, scores: Floats) -> None:
        """Add the products with a query to the scores of its rows, float32[count]."""
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
