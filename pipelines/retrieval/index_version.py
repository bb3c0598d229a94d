"""One version of an index, opened for searches: by vectors, by words, or by several of these."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.base.errors import RequestError
from pipelines.retrieval.about import About
from pipelines.retrieval.dense_vectors import Floats, Rows, unit
from pipelines.retrieval.file_sums import DAMAGED
from pipelines.retrieval.filters import Where
from pipelines.retrieval.postings import Ids
from pipelines.retrieval.rank_fusion import fused_ranks
from pipelines.retrieval.stored_version import StoredVersion
from pipelines.retrieval.words import StoredWords, query_words
from pipelines.values.node_values import Vectors
from pipelines.values.search_values import SEARCH_KINDS, VECTOR_KINDS, Hit

MAX_WORDS = 64
"""Words of a query that are looked for; further ones are left out."""
MAX_MASKS = 8
"""Conditions whose rows are cached: clients filter by the same ones again and again."""
NUM_CANDIDATES = 100
"""Passages of each kind of search that are fused, where fewer hits are wanted."""


@dataclass(frozen=True, slots=True)
class Query:
    """One search: `weights` of the kinds that are fused, `top` hits, those that fulfil `condition` alone.

    `terms`: the ids and weights of its sparse vector, int32[n] and float32[n].
    """

    text: str
    top: int = 10
    weights: Mapping[str, float] = field(default_factory=lambda: {"dense": 1.0})
    condition: Where | None = None
    terms: tuple[Ids, Floats] | None = None


class Version(StoredVersion):
    """One version of an index, opened for searches.  Used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError, sqlite3.Error, and ValueError where it is damaged."""
        super().__init__(folder, About.read(folder))
        try:
            if self.vectors is not None:
                self.vectors.use_graph()
            self.about.check_files(folder)  # at last: what is there now was there when it was opened
        except BaseException:
            self.close()
            raise
        self._present = self.passages.allowed(None) if self.passages.has_removed else None
        self._masks: dict[tuple[str, tuple[Any, ...]], NDArray[np.bool_]] = {}
        self.words = StoredWords([part.words for part in self.passages.parts], self._present)

    def search(self, queries: Sequence[Query], vectors: Floats) -> list[list[Hit]]:
        """The hits of each query; `vectors`: float32[queries, size], of any size where none are wanted.

        Raises ValueError for vectors of another size, RequestError for a kind that the index does not hold.
        """
        kinds = {kind for query in queries for kind, weight in query.weights.items() if weight}
        for kind in sorted(kinds.intersection(VECTOR_KINDS)):
            if kind not in self.about.kinds:
                raise RequestError(f"this index holds no {kind} vectors", field=f"weights.{kind}")
        if "dense" in kinds and vectors.shape != (len(queries), self.about.size):
            raise ValueError(
                f"the index holds vectors of {self.about.size} numbers, from {self.about.model}; the query's "
                f"has {vectors.shape[-1]}: write the index again with the model that is used"
            )
        pairs = zip(queries, unit(vectors), strict=True)
        try:
            return [self._hits(query, self._kinds(query, vector)) for query, vector in pairs]
        except (IndexError, KeyError, sqlite3.Error) as error:
            raise ValueError(f"a file holds what it cannot ({error}): {DAMAGED}") from error

    def _kinds(self, query: Query, vector: Floats) -> dict[str, list[tuple[int, float]]]:
        """(row, score) of each kind of search that has a weight, the best first."""
        kinds = [kind for kind in SEARCH_KINDS if query.weights.get(kind)]
        top = query.top if len(kinds) == 1 else max(query.top, NUM_CANDIDATES)
        allowed = self._allowed(query.condition) if query.condition else self._present
        ranked = {}
        if "dense" in kinds and self.vectors is not None:
            ranked["dense"] = _ranked(self.vectors.nearest(vector[None], top, allowed)[0])
        if "sparse" in kinds and self.postings is not None and query.terms is not None:
            ranked["sparse"] = _ranked(self.postings.best(*query.terms, top, allowed))
        if "text" in kinds:
            ranked["text"] = _ranked(self.words.best(query_words(query.text, MAX_WORDS), top, allowed))
        return ranked

    def _allowed(self, condition: Where) -> NDArray[np.bool_]:
        """Which rows fulfil a condition; those of the last few conditions are cached."""
        key = condition[0], tuple(condition[1])
        mask = self._masks.pop(key, None)
        if mask is None:
            mask = self.passages.allowed(condition)
        self._masks[key] = mask
        if len(self._masks) > MAX_MASKS:
            del self._masks[next(iter(self._masks))]
        return mask

    def _hits(self, query: Query, kinds: Mapping[str, list[tuple[int, float]]]) -> list[Hit]:
        scores: dict[int, dict[str, float]] = {}
        for kind, ranked in kinds.items():
            for row, score in ranked:
                scores.setdefault(row, {})[kind] = score
        fused = _fused(kinds, query.weights)
        best = sorted(fused, key=lambda row: (-fused[row], row))[: query.top]
        stored = self.passages.at(best)
        return [
            Hit(
                stored[row].document,
                stored[row].text,
                fused[row],
                stored[row].heading,
                stored[row].start,
                stored[row].attributes,
                scores[row],
            )
            for row in best
        ]


def _ranked(found: tuple[Rows, NDArray[Any]]) -> list[tuple[int, float]]:
    rows, scores = found
    return list(zip(rows.tolist(), scores.tolist(), strict=True))


def _fused(kinds: Mapping[str, list[tuple[int, float]]], weights: Mapping[str, float]) -> dict[int, float]:
    """The score of each row: of one kind its own, of several the weighted sum of reciprocal ranks."""
    if len(kinds) == 1:
        (ranked,) = kinds.values()
        return dict(ranked)
    rankings = [[row for row, _ in ranked] for ranked in kinds.values()]
    return fused_ranks(rankings, [weights[kind] for kind in kinds])


def dense_of(vectors: Mapping[str, Vectors], num_queries: int) -> Floats:
    """The dense vectors of queries, float32[queries, size]; a size of 1 where there are none.

    Raises ValueError for a vector per token.
    """
    dense = vectors.get("dense")
    return np.zeros((num_queries, 1), np.float32) if dense is None else query_vectors(dense)


def query_vectors(vectors: Any) -> Floats:
    """float32[queries, size] of what a model gave.  Raises ValueError for a vector per token."""
    if isinstance(vectors, list):
        raise ValueError("an index needs one vector for each text; the model gives one for each token")
    return np.asarray(vectors, np.float32)
