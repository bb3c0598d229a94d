"""The vectors of an index: written row by row, and searched exactly.

The files hold each vector twice: in 8 bits with a scale, which a search reads from end to end, and in 16
bits, with which the best candidates are scored.  How far the two differ is stored for each row, so that no
better row is missed: the result is that of a search over the vectors of 16 bits.  With `int8` the first alone
is stored, in a third of the room, and its scores are the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipelines.retrieval.index_parts import part_file
from pipelines.retrieval.near_graph import CANDIDATES, DENSE_SHARE, NearGraph

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]
Precision = Literal["float16", "int8"]
Number = TypeVar("Number", bound=np.generic)

CODES, HALVES, SCALES = "codes.bin", "halves.bin", "scales.bin"
BLOCK = 1024
"""Rows that are scored at a time: their numbers in 32 bits stay in the processor's cache."""
LARGEST_CODE = 127
LEAST_MAPPED = 1 << 16
"""Bytes from which on a file is mapped: each that is takes a file descriptor of the process."""


def unit(vectors: Floats) -> Floats:
    """The vectors, float32[n, size], with length 1; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True).astype(np.float32)
    scaled: Floats = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return scaled


class VectorWriter:
    """Writes vectors of length 1 to a part of a new version."""

    def __init__(self, folder: Path, precision: Precision, part: int = 0) -> None:
        self._folder, self._part = folder, part
        self._names = (CODES, SCALES, HALVES) if precision == "float16" else (CODES, SCALES)
        self._open: dict[str, BinaryIO] = {}

    def append(self, vectors: Floats) -> None:
        """Write vectors, float32[n, size].  Raises OSError, and ValueError for NaN and infinity."""
        if not np.isfinite(vectors).all():
            raise ValueError("the model gave a vector with numbers that are not finite")
        exact = vectors if HALVES not in self._names else vectors.astype(np.float16).astype(np.float32)
        scales = np.abs(exact).max(axis=1) / LARGEST_CODE
        codes = np.rint(exact / np.maximum(scales, np.finfo(np.float32).tiny)[:, None]).astype(np.int8)
        errors = np.linalg.norm(exact - codes * scales[:, None], axis=1)
        self._write(CODES, codes)
        self._write(SCALES, np.stack([scales, errors], axis=1).astype(np.float32))
        if HALVES in self._names:
            self._write(HALVES, vectors.astype(np.float16))

    def copy(self, part: DensePart, rows: Rows) -> None:
        """Write rows of a part of an earlier version as they are there.  Raises OSError."""
        for start in range(0, len(rows), BLOCK):
            self._copy(part, rows[start : start + BLOCK])

    def _copy(self, part: DensePart, rows: Rows) -> None:
        self._write(CODES, part.codes[rows])
        self._write(SCALES, part.scales[rows])
        if HALVES in self._names and part.halves is not None:
            self._write(HALVES, part.halves[rows])

    def _write(self, name: str, values: NDArray[Any]) -> None:
        if name not in self._open:
            self._open[name] = (part_file(self._folder, self._part, name)).open("wb")
        self._open[name].write(values.tobytes())

    def close(self) -> None:
        for file in self._open.values():
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class DenseVectors:
    """The vectors of a version, in parts whose files never change: several versions may share them."""

    def __init__(self, folder: Path, counts: Sequence[int], size: int) -> None:
        """`counts`: the rows of each part.  Raises OSError, and ValueError where the files have others."""
        self.folder, self.count, self.size = folder, sum(counts), size
        self.parts = [DensePart(folder, number, count, size) for number, count in enumerate(counts)]
        self.graph: NearGraph | None = None

    def use_graph(self) -> None:
        """Search by the graph of the version, if it has one.  Raises ValueError where it is damaged."""
        self.graph = NearGraph.of(self.folder, self.size)

    def nearest(
        self, queries: Floats, top: int, allowed: NDArray[np.bool_] | None = None
    ) -> list[tuple[Rows, Floats]]:
        """The rows with the largest products with each query, the best first, and the products.

        `queries`: float32[q, size] of length 1; `allowed`: bool[n], the rows that may be chosen.  By a graph
        some of the rows may be missing, unless few may be chosen.
        """
        graph = self.graph
        if graph is None or top * CANDIDATES * DENSE_SHARE > graph.count:
            return self._by_all(queries, top, allowed)
        if allowed is not None and np.count_nonzero(allowed) * DENSE_SHARE <= self.count:
            return self._by_all(queries, top, allowed)
        return [self._by_graph(graph, query, top, allowed) for query in queries]

    def _by_graph(
        self, graph: NearGraph, query: Floats, top: int, allowed: NDArray[np.bool_] | None
    ) -> tuple[Rows, Floats]:
        """The best of the graph's candidates, and of the rows that are not in it; of all rows where the
        candidates that are allowed are too few.
        """
        rows = graph.near(query, top if allowed is None else top * DENSE_SHARE)
        rows = np.unique(rows if allowed is None else rows[allowed[rows]])
        if len(rows) < top:
            return self._by_all(query[None], top, allowed)[0]
        first, ranked = 0, []
        for part in self.parts:
            own = rows[np.searchsorted(rows, first) : np.searchsorted(rows, first + part.count)]
            ranked.append((own, part.products(query, own - first)))
            if first + part.count > graph.count:
                rest = np.zeros(part.count, np.bool_)
                rest[max(graph.count - first, 0) :] = True
                if allowed is not None:
                    rest &= allowed[first : first + part.count]
                ((best, scores),) = part.nearest(query[None], top, rest)
                ranked.append((best + first, scores))
            first += part.count
        return _first(ranked, top)

    def _by_all(
        self, queries: Floats, top: int, allowed: NDArray[np.bool_] | None
    ) -> list[tuple[Rows, Floats]]:
        """The best of all rows, as `nearest`."""
        first, ranked = 0, [[(np.empty(0, np.int64), np.empty(0, np.float32))] for _ in queries]
        for part in self.parts:
            own = None if allowed is None else allowed[first : first + part.count]
            for of_query, (rows, scores) in zip(ranked, part.nearest(queries, top, own), strict=True):
                of_query.append((rows + first, scores))
            first += part.count
        return [_first(of_query, top) for of_query in ranked]


class DensePart:
    """A part of the vectors, mapped from its files: processes that search one index share its pages.

    `codes`: int8[n, size]; `halves`: float16[n, size], None with `int8`; `scales`: float32[n, 2], of each row
    the scale of its codes and the length of what they lose.
    """

    def __init__(self, folder: Path, number: int, count: int, size: int) -> None:
        """Raises OSError, and ValueError where a file has another length."""
        self.count, self.size = count, size
        self.codes: NDArray[np.int8] = mapped(part_file(folder, number, CODES), np.int8, (count, size))
        self.scales: Floats = mapped(part_file(folder, number, SCALES), np.float32, (count, 2))
        halves = part_file(folder, number, HALVES)
        self.halves: NDArray[np.float16] | None = (
            mapped(halves, np.float16, (count, size)) if halves.exists() else None
        )

    def products(self, query: Floats, rows: Rows) -> Floats:
        """The products of some rows with a query, as exactly as the part has them."""
        if self.halves is not None:
            return self.halves[rows].astype(np.float32) @ query
        codes: Floats = (self.codes[rows].astype(np.float32) @ query) * self.scales[rows, 0]
        return codes

    def nearest(
        self, queries: Floats, top: int, allowed: NDArray[np.bool_] | None
    ) -> list[tuple[Rows, Floats]]:
        """The rows of this part, as `DenseVectors.nearest`."""
        return [self._best(query, scores, top, allowed) for query, scores in self._scored(queries)]

    def _scored(self, queries: Floats) -> Iterator[tuple[Floats, Floats]]:
        """Each query with the products of its codes, float32[n]."""
        scores = np.empty((len(queries), self.count), np.float32)
        block = np.empty((BLOCK, self.size), np.float32)
        for start in range(0, self.count, BLOCK):
            codes = self.codes[start : start + BLOCK]
            end = start + len(codes)
            np.copyto(block[: len(codes)], codes)
            np.matmul(queries, block[: len(codes)].T, out=scores[:, start:end])
            scores[:, start:end] *= self.scales[start:end, 0]
        yield from zip(queries, scores, strict=True)

    def _best(
        self, query: Floats, scores: Floats, top: int, allowed: NDArray[np.bool_] | None
    ) -> tuple[Rows, Floats]:
        if allowed is not None:
            scores = np.where(allowed, scores, -np.inf)
            top = min(top, int(np.count_nonzero(allowed)))
        top = min(top, self.count)
        if not top:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        if self.halves is None:
            rows = largest(scores, top)
        else:
            rows = self._candidates(scores, float(np.linalg.norm(query)), top)
            scores = scores.copy()
            scores[rows] = self.halves[rows].astype(np.float32) @ query
        order = np.lexsort((rows, -scores[rows]))[:top]
        best = rows[order]
        return best, scores[best]

    def _candidates(self, scores: Floats, length: float, top: int) -> Rows:
        """The rows that may be among the best: the product of a row differs from that of its codes by the
        length of what they lose at most (Cauchy and Schwarz).
        """
        bounds = self.scales[:, 1] * length
        lowest = scores - bounds
        least = lowest[largest(lowest, top)].min()
        return np.flatnonzero(scores + bounds >= least)


def _first(found: list[tuple[Rows, Floats]], top: int) -> tuple[Rows, Floats]:
    """The best of several parts."""
    rows, scores = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.lexsort((rows, -scores))[:top]
    return rows[order], scores[order]


def largest(values: NDArray[Any], count: int) -> Rows:
    """The places of the `count` largest values, in no order."""
    if count >= len(values):
        return np.arange(len(values))
    return np.argpartition(values, len(values) - count)[len(values) - count :]


def mapped(path: Path, dtype: type[Number], shape: tuple[int, ...]) -> NDArray[Number]:
    """The numbers of a file, a small one as a copy.  Raises OSError, and ValueError for another length."""
    wanted = math.prod(shape) * np.dtype(dtype).itemsize
    if not wanted:
        return np.empty(shape, dtype)
    if path.stat().st_size != wanted:
        raise ValueError(f"{path} has {path.stat().st_size} bytes, not {wanted}: the index is damaged")
    if wanted < LEAST_MAPPED:
        return np.fromfile(path, dtype).reshape(shape)
    return np.memmap(path, dtype, "r", shape=shape)
