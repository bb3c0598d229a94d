"""Sparse vectors of an index by term: the rows that hold a term, with their weights; searched exactly.

A term is a number, as an id of the model's vocabulary.  A search reads the terms of its query alone.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.retrieval.dense_vectors import Floats, Rows, largest, mapped
from pipelines.values.node_values import SparseVectors

TERMS, ENDS, ROWS, WEIGHTS = "terms.bin", "ends.bin", "rows.bin", "weights.bin"
Ids = NDArray[np.int32]


class PostingsWriter:
    """Collects the sparse vectors of a new version in memory: 12 bytes for each number that is not 0."""

    def __init__(self) -> None:
        self._parts: list[tuple[Ids, Ids, Floats]] = []  # terms, rows, weights

    def append(self, first_row: int, vectors: SparseVectors) -> None:
        """Add vectors, whose rows count from `first_row`.  Raises ValueError for NaN and infinity."""
        if not np.isfinite(vectors.weights).all():
            raise ValueError("the model gave a vector with numbers that are not finite")
        rows = np.repeat(np.arange(first_row, first_row + len(vectors), dtype=np.int32), vectors.lengths)
        self._parts.append((vectors.ids, rows, vectors.weights))

    def copy(self, postings: Postings, rows: Rows) -> None:
        """Add rows of an earlier version, in ascending order; they are numbered from 0."""
        numbers = np.full(postings.count, -1, np.int32)
        numbers[rows] = np.arange(len(rows), dtype=np.int32)
        terms = np.repeat(postings.terms, np.diff(postings.ends, prepend=0))
        new_rows = numbers[postings.rows]
        stays = new_rows >= 0
        self._parts.append((terms[stays], new_rows[stays], postings.weights[stays]))

    def write(self, folder: Path) -> None:
        """Write the files, int32 terms in ascending order, int64 ends of their postings, int32 rows, float32
        weights.  Raises OSError.
        """
        terms = np.concatenate([np.empty(0, np.int32), *(part[0] for part in self._parts)])
        rows = np.concatenate([np.empty(0, np.int32), *(part[1] for part in self._parts)])
        weights = np.concatenate([np.empty(0, np.float32), *(part[2] for part in self._parts)])
        order = np.lexsort((rows, terms))
        starts = np.flatnonzero(np.diff(terms[order], prepend=-1))
        ends = np.append(starts[1:], len(terms))[: len(starts)].astype(np.int64)
        files = {TERMS: terms[order][starts], ENDS: ends, ROWS: rows[order], WEIGHTS: weights[order]}
        for name, values in files.items():
            (folder / name).write_bytes(values.tobytes())


class Postings:
    """The sparse vectors of a version, mapped from its files; `count` is the number of its rows."""

    def __init__(self, folder: Path, count: int) -> None:
        """Raises OSError, and ValueError where the lengths of the files do not belong together."""
        self.count = count
        num_terms = (folder / TERMS).stat().st_size // 4
        self.terms: Ids = mapped(folder / TERMS, np.int32, (num_terms,))
        self.ends: Rows = mapped(folder / ENDS, np.int64, (num_terms,))
        num_postings = int(self.ends[-1]) if num_terms else 0
        self.rows: Ids = mapped(folder / ROWS, np.int32, (num_postings,))
        self.weights: Floats = mapped(folder / WEIGHTS, np.float32, (num_postings,))

    def best(
        self, terms: Ids, weights: Floats, top: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[Rows, Floats]:
        """The rows with the largest products with a query, the best first, and the products: those above 0.

        `terms` and `weights` are the numbers of the query that are not 0; `allowed`: bool[n], the rows that
        may be chosen.
        """
        scores = np.zeros(self.count, np.float32)
        for term, weight in zip(terms.tolist(), weights.tolist(), strict=True):
            holding, own = self._of(term)
            scores[holding] += np.float32(weight) * own
        if allowed is not None:
            scores[~allowed] = 0
        matching = np.flatnonzero(scores > 0)
        rows: Rows = matching[largest(scores[matching], top)]
        order = np.lexsort((rows, -scores[rows]))
        return rows[order], scores[rows[order]]

    def _of(self, term: int) -> tuple[Ids, Floats]:
        """The rows of a term, each once, and their weights."""
        place = int(np.searchsorted(self.terms, term))
        if place == len(self.terms) or self.terms[place] != term:
            return self.rows[:0], self.weights[:0]
        span = slice(int(self.ends[place - 1]) if place else 0, int(self.ends[place]))
        return self.rows[span], self.weights[span]
