"""The vectors of an index: written row by row, and searched exactly.

The files hold each vector twice: in 8 bits with a scale, which a search reads from end to end, and in 16
bits, with which the best candidates are scored.  How far the two differ is stored for each row, so that no
better row is missed: the result is that of a search over the vectors of 16 bits.  With `int8` the first alone
is stored, in a third of the room, and its scores are the result.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]
Precision = Literal["float16", "int8"]
Number = TypeVar("Number", bound=np.generic)

CODES, HALVES, SCALES = "codes.bin", "halves.bin", "scales.bin"
BLOCK = 1024
"""Rows that are scored at a time: their numbers in 32 bits stay in the processor's cache."""
LARGEST_CODE = 127


def unit(vectors: Floats) -> Floats:
    """The vectors, float32[n, size], with length 1; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True).astype(np.float32)
    scaled: Floats = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return scaled


class VectorWriter:
    """Appends vectors of length 1 to the files of a new version."""

    def __init__(self, folder: Path, precision: Precision) -> None:
        self._folder = folder
        names = (CODES, SCALES, HALVES) if precision == "float16" else (CODES, SCALES)
        self._files: dict[str, BinaryIO] = {name: (folder / name).open("wb") for name in names}
        self._shared: dict[str, int] = {}  # what files had that an earlier version reads too, in bytes

    def append(self, vectors: Floats) -> None:
        """Write vectors, float32[n, size].  Raises OSError, and ValueError for NaN and infinity."""
        if not np.isfinite(vectors).all():
            raise ValueError("the model gave a vector with numbers that are not finite")
        exact = vectors if HALVES not in self._files else vectors.astype(np.float16).astype(np.float32)
        scales = np.abs(exact).max(axis=1) / LARGEST_CODE
        codes = np.rint(exact / np.maximum(scales, np.finfo(np.float32).tiny)[:, None]).astype(np.int8)
        errors = np.linalg.norm(exact - codes * scales[:, None], axis=1)
        self._files[CODES].write(codes.tobytes())
        self._files[SCALES].write(np.stack([scales, errors], axis=1).astype(np.float32).tobytes())
        if HALVES in self._files:
            self._files[HALVES].write(vectors.astype(np.float16).tobytes())

    def copy(self, vectors: DenseVectors, rows: Rows) -> None:
        """Begin with rows of an earlier version as they are; all of them cost nothing.  Raises OSError."""
        arrays: dict[str, NDArray[Any] | None] = {
            CODES: vectors.codes,
            SCALES: vectors.scales,
            HALVES: vectors.halves,
        }
        for name in self._files:
            array = arrays[name]
            assert array is not None, "versions of another precision are not copied"
            if len(rows) == vectors.count and self._share(vectors.folder, name, array.nbytes):
                continue
            for start in range(0, len(rows), BLOCK):
                self._files[name].write(array[rows[start : start + BLOCK]].tobytes())

    def _share(self, folder: Path, name: str, num_bytes: int) -> bool:
        """Append to the file of an earlier version, which reads its first `num_bytes` alone, and goes on to.

        False where the disk has no links.  What an update has left there that was killed is cut off.
        """
        own = self._folder / name
        own.unlink()
        try:
            own.hardlink_to(folder / name)
        except OSError:
            own.touch()
        self._files[name].close()
        self._files[name] = own.open("r+b")
        if own.stat().st_size < num_bytes:
            return False
        self._shared[name] = self._files[name].truncate(num_bytes)
        self._files[name].seek(num_bytes)
        return True

    def close(self, is_whole: bool = True) -> None:
        """Close the files; what is in those that an earlier version reads too goes where not `is_whole`."""
        if is_whole:
            for file in self._files.values():
                file.close()
            return
        for name, file in self._files.items():
            with suppress(OSError):  # on a full disk
                file.close()
            if name in self._shared:
                os.truncate(self._folder / name, self._shared[name])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(is_whole=error is None)


class DenseVectors:
    """The vectors of a version, mapped from its files: processes that search one index share its pages.  A
    later version may have appended to them.

    `codes`: int8[n, size]; `halves`: float16[n, size], None with `int8`; `scales`: float32[n, 2], of each row
    the scale of its codes and the length of what they lose.
    """

    def __init__(self, folder: Path, count: int, size: int) -> None:
        """Raises OSError, and ValueError where a file has not the length of `count` vectors."""
        self.folder, self.count, self.size = folder, count, size
        self.codes: NDArray[np.int8] = mapped(folder / CODES, np.int8, (count, size))
        self.scales: Floats = mapped(folder / SCALES, np.float32, (count, 2))
        halves = folder / HALVES
        self.halves: NDArray[np.float16] | None = (
            mapped(halves, np.float16, (count, size)) if halves.exists() else None
        )

    def nearest(
        self, queries: Floats, top: int, allowed: NDArray[np.bool_] | None = None
    ) -> list[tuple[Rows, Floats]]:
        """The rows with the largest products with each query, the best first, and the products.

        `queries`: float32[q, size] of length 1; `allowed`: bool[n], the rows that may be chosen.
        """
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


def largest(values: Floats, count: int) -> Rows:
    """The places of the `count` largest values, in no order."""
    if count >= len(values):
        return np.arange(len(values))
    return np.argpartition(values, len(values) - count)[len(values) - count :]


def mapped(path: Path, dtype: type[Number], shape: tuple[int, ...]) -> NDArray[Number]:
    """The first numbers of a file.  Raises OSError, and ValueError where it is too short."""
    wanted = math.prod(shape) * np.dtype(dtype).itemsize
    if path.stat().st_size < wanted:
        raise ValueError(f"{path} has {path.stat().st_size} bytes, not {wanted}: the index is damaged")
    if not wanted:
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, "r", shape=shape)
