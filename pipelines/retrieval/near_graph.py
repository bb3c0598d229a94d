"""A graph of near vectors (HNSW, by usearch), for an index with too many vectors to read at each search.

Its file is in the folder of a version and never changes: later versions share it, and search exactly what was
added since.  The graph gives candidates, which are scored as exactly as without it; it may miss some.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pipelines.retrieval.index_parts import share_file

log = logging.getLogger("braid.retrieval")

FILE = "graph.usearch"
LEAST_ROWS = 1_000_000
"""The fewest vectors of an index that gets a graph."""
REST_SHARE = 8
"""A graph is extended where more than one row in this number is not in it."""
LINKS, BUILD_WIDTH, SEARCH_WIDTH = 16, 96, 192
"""Neighbours of a vector, and how many candidates are compared while a graph is written and searched."""
CANDIDATES = 4
"""Candidates for each row that is wanted, and `SEARCH_WIDTH` at least."""
DENSE_SHARE = 8
"""Where fewer than one row in this number may be chosen, all of these are scored without the graph."""
BLOCK = 1 << 14
LOGGED_EVERY_S = 30.0

Progress = Callable[[int], None]
"""Called with the number of rows that a graph has so far."""


class WrittenVectors(Protocol):
    """The vectors of a version: `count` rows of `size` numbers, in parts with their codes and scales."""

    count: int
    size: int

    @property
    def parts(self) -> Sequence[Any]: ...


def has_library() -> bool:
    """Whether usearch is installed."""
    try:
        import usearch.index  # noqa: F401
    except ImportError:
        return False
    return True


class NearGraph:
    """A graph over the first `count` rows of a version, mapped from its file."""

    def __init__(self, path: Path, size: int) -> None:
        """Raises ValueError for a file that is damaged or of vectors of another size."""
        self._index = opened(path, size, view=True)
        self._search = threading.Lock()
        self.count = len(self._index)

    @classmethod
    def of(cls, folder: Path, size: int) -> NearGraph | None:
        """The graph of a version; None where it has none, or without the library."""
        path = folder / FILE
        if not path.exists():
            return None
        if not has_library():
            log.warning("%s is not used: pip install usearch; searches read all vectors until then", path)
            return None
        return cls(path, size)

    def near(self, query: NDArray[np.float32], top: int) -> NDArray[np.int64]:
        """Rows that are probably nearest to a query, float32[size]: at least `top`, if it has them.

        One search after the other: the graph has one width for all, and room for the search of one thread.
        """
        wanted = max(top * CANDIDATES, SEARCH_WIDTH)
        with self._search:
            self._index.expansion_search = wanted
            matches = self._index.search(query, min(wanted, self.count), threads=1)
        rows: NDArray[np.int64] = matches.keys.astype(np.int64)
        return rows


def write_graph(
    before: Path | None, new: Path, vectors: WrittenVectors, least_rows: int, num_same: int = 0
) -> bool:
    """Write the graph of a new version, or share that of the version before; whether it is shared.

    The first `num_same` rows of the new version are those of `before`: a graph of more is written anew.
    Below `least_rows` and without the library there is none.  Raises OSError, and RuntimeError where usearch
    cannot write.
    """
    if vectors.count < least_rows:
        return False
    if not has_library():
        log.warning("%s has %s vectors: pip install usearch makes searches fast", new, vectors.count)
        return False
    path = None if before is None else before / FILE
    graph = opened(path, vectors.size, view=True) if path is not None and path.exists() else None
    if path is None or graph is None or len(graph) > num_same:
        extend(new_index(vectors.size), vectors).save(str(new / FILE))
        return False
    if (vectors.count - len(graph)) * REST_SHARE <= vectors.count:
        share_file(path, new / FILE)
        return True
    extend(opened(path, vectors.size, view=False), vectors).save(str(new / FILE))
    return False


def extend(index: Any, vectors: WrittenVectors, progress: Progress | None = None) -> Any:
    """Add the rows that are not in a graph, on all cores; the graph."""
    progress = progress or _Logged(vectors.count)
    for first, block in _blocks(vectors, len(index)):
        index.add(np.arange(first, first + len(block)), block)
        progress(first + len(block))
    return index


class _Logged:
    """Writes to the log how far a graph is: one of a million rows takes minutes."""

    def __init__(self, num_rows: int) -> None:
        self._num_rows, self._logged_s = num_rows, time.monotonic()

    def __call__(self, num_added: int) -> None:
        now_s = time.monotonic()
        if now_s - self._logged_s > LOGGED_EVERY_S:
            self._logged_s = now_s
            log.warning("the graph of near vectors has %s of %s rows", num_added, self._num_rows)


def _blocks(vectors: WrittenVectors, start: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Rows from `start` on, float32[n, size], each block with the number of its first."""
    first = 0
    for part in vectors.parts:
        for at in range(max(start - first, 0), part.count, BLOCK):
            codes = part.codes[at : at + BLOCK]
            yield first + at, codes * part.scales[at : at + len(codes), :1]
        first += part.count


def new_index(size: int) -> Any:
    from usearch.index import Index

    return Index(
        ndim=size,
        metric="cos",
        dtype="i8",
        connectivity=LINKS,
        expansion_add=BUILD_WIDTH,
        expansion_search=SEARCH_WIDTH,
        enable_key_lookups=False,
    )


def opened(path: Path, size: int, view: bool) -> Any:
    """A graph from its file.  Raises ValueError for a damaged one, and one of vectors of another size."""
    from usearch.index import Index

    try:
        index = Index.restore(str(path), view=view)
    except Exception as error:  # the library raises several kinds
        raise ValueError(f"{path}: {error}: the index is damaged; write it again") from None
    if index is None or index.ndim != size:
        raise ValueError(f"{path} is not a graph of vectors of {size} numbers: the index is damaged")
    return index
