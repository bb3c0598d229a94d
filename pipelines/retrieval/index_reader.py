"""An index, opened for searches: by vectors, by words, or by several of these."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
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
from pipelines.retrieval.index_folder import IndexFolder
from pipelines.retrieval.passages import Passages
from pipelines.retrieval.postings import Ids
from pipelines.retrieval.rank_fusion import fused_ranks
from pipelines.retrieval.stored_version import StoredVersion
from pipelines.retrieval.version_files import RestCheck, VersionFiles
from pipelines.retrieval.words import StoredWords, query_words
from pipelines.values.node_values import Vectors
from pipelines.values.search_values import SEARCH_KINDS, VECTOR_KINDS, Hit

log = logging.getLogger("braid.retrieval")

CHECK_S, AFTER_FAULT_S = 1.0, 5.0
"""How long a version is searched before it is looked whether there is a newer one, in seconds, and after one
that cannot be opened: its files may have to be read each time.
"""
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


class IndexReader:
    """Searches the current version of an index; a newer one is opened when it is there.

    Several threads may search at a time; they take turns.
    """

    def __init__(
        self, path: Path, clock: Callable[[], float] = time.monotonic, check_s: float = CHECK_S
    ) -> None:
        """Opens the current version; with a `check_s` of 0 each search looks for a newer one.

        Raises FileNotFoundError without one, else as `Version`, and ValueError where a file is missing or
        damaged.  Of a large index not all files are read here, but while it is searched.
        """
        self._folder, self._clock, self._check_s = IndexFolder(path), clock, check_s
        self._lock = threading.Lock()
        self._files = VersionFiles()
        self._number, self._version, self._rest = self._open()
        self._look_s = clock() + check_s
        self._fault = ""

    @property
    def about(self) -> About:
        return self._version.about

    def search(self, queries: Sequence[Query], vectors: Floats) -> list[list[Hit]]:
        """The hits of each query; as `Version.search`, and ValueError since a file was found damaged."""
        with self._lock:
            self._follow()
            if self._rest.fault:
                raise ValueError(self._rest.fault)
            return self._version.search(queries, vectors)

    def read(self, function: Callable[[Passages], Any]) -> Any:
        """What a function makes of the passages."""
        with self._lock:
            self._follow()
            return function(self._version.passages)

    def check_sums(self) -> None:
        """Read all files of the version that is open.  Raises ValueError where one is damaged, OSError."""
        with self._lock:
            folder, files = self._version.folder, self._version.about.files
            for path in self._files.check(folder, files):
                self._files.read(path, files[path.name])

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        self._rest.stop()
        self._version.close()

    def _follow(self) -> None:
        """Open a newer version; where that fails, the one that is open is searched on."""
        now_s = self._clock()
        if now_s < self._look_s:
            return
        self._look_s = now_s + self._check_s
        try:
            if self._folder.number() == self._number:
                return
            number, version, rest = self._open()
        except (OSError, ValueError, sqlite3.Error) as error:
            if str(error) != self._fault:
                log.error("the index %s stays at version %s: %s", self._folder.path, self._number, error)
            self._fault, self._look_s = str(error), now_s + AFTER_FAULT_S
            return
        self._close()
        self._number, self._version, self._rest, self._fault = number, version, rest, ""

    def _open(self) -> tuple[int, Version, RestCheck]:
        """The current version.  One that a writer may have begun to remove meanwhile is not taken."""
        for _ in range(3):
            number = self._folder.number()
            if number is None:
                raise FileNotFoundError(f"{self._folder.path} holds no index: write one with `braid index`")
            try:
                version, left = self._checked(self._folder.version(number))
            except (OSError, ValueError, sqlite3.Error) as error:
                if not self._folder.is_kept(number):
                    continue
                if isinstance(error, FileNotFoundError):
                    raise ValueError(f"{error.filename} is missing: {DAMAGED}") from None
                raise
            if self._folder.is_kept(number):
                return number, version, RestCheck(self._files, left, version.about.files)
            version.close()
        raise OSError(f"{self._folder.path} changes faster than it can be opened")

    def _checked(self, folder: Path) -> tuple[Version, Sequence[Path]]:
        """A version, opened, and those of its files that are still to be read."""
        left = self._files.check(folder, About.read(folder).files)
        return Version(folder), left


def check_index(path: Path) -> None:
    """Open an index as searches do, and read all files of its current version.

    Raises FileNotFoundError without one, sqlite3.Error and ValueError where it is damaged, OSError.
    """
    reader = IndexReader(path)
    try:
        reader.check_sums()
    finally:
        reader.close()


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
