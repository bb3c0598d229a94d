"""Reads CTranslate2's model.bin: named arrays, little-endian, one after another.

    u32 version, string name of the model's kind, u32 revision
    u32 count, and of each variable: string name, u8 axes, u32 of each axis, u8 type, u32 bytes, data
    u32 count, and of each alias: string name, string name of a variable

A string is u16 bytes, of which the last is 0.  Every count and size is compared with the bytes that are left
before it is used.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.export.base.folder import ExportError

BINARY, MAX_PARTS = "model.bin", 100
VERSIONS = (5, 6)
MAX_AXES = 4
BFLOAT16 = 5
DTYPES: dict[int, np.dtype[Any]] = {
    number: np.dtype(name)
    for number, name in enumerate(("<f4", "<i1", "<i2", "<i4", "<f2", "<u2"))  # the last: bfloat16
}
LEAST_VARIABLE, LEAST_ALIAS = 2 + 1 + 1 + 4, 2 + 2
"""Bytes of the shortest variable and alias."""
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Ctranslate2File:
    """`kind` is the name of CTranslate2's class.  Variables are views of the mapped file, by name."""

    kind: str
    variables: Arrays


def find_ctranslate2(folder: Path) -> list[Path]:
    """The file model.bin of a folder, or its parts in order; [] without one."""
    whole = folder / BINARY
    if whole.is_file():
        return [whole]
    return [part for number in range(1, MAX_PARTS) if (part := folder / f"{BINARY}.part{number}").is_file()]


def read_ctranslate2(files: Sequence[Path]) -> Ctranslate2File:
    """Read a file, or the parts of one.  Raises `ExportError`, which names it, and OSError."""
    path = files[0]
    try:
        if len(files) > 1:
            return _FileReader(b"".join(part.read_bytes() for part in files)).read()
        with path.open("rb") as file:
            return _FileReader(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)).read()
    except ValueError as error:
        raise ExportError(f"{path} is no model.bin of CTranslate2: {error}") from error


class _FileReader:
    """A place in the file that only moves forward.  Raises ValueError."""

    def __init__(self, pages: mmap.mmap | bytes) -> None:
        self._pages, self._at = memoryview(pages), 0

    def read(self) -> Ctranslate2File:
        version = self._number("I")
        if version not in VERSIONS:
            raise ValueError(f"version {version}; versions {VERSIONS[0]} and {VERSIONS[1]} are read")
        kind, _ = self._string(), self._number("I")
        variables: Arrays = {}
        for _ in range(self._count(LEAST_VARIABLE, "variables")):
            name = self._string()
            if name in variables:
                raise ValueError(f"two variables {name}")
            variables[name] = self._array(name)
        for _ in range(self._count(LEAST_ALIAS, "aliases")):
            alias, name = self._string(), self._string()
            if name not in variables:
                raise ValueError(f"{alias} is another name of {name}, which is not there")
            variables[alias] = variables[name]
        return Ctranslate2File(kind, variables)

    def _array(self, name: str) -> NDArray[Any]:
        num_axes = self._number("B")
        if num_axes > MAX_AXES:
            raise ValueError(f"{name} has {num_axes} axes")
        shape = [self._number("I") for _ in range(num_axes)]
        number, num_bytes = self._number("B"), self._number("I")
        if number not in DTYPES:
            raise ValueError(f"{name} is of type {number}")
        dtype = DTYPES[number]
        if num_bytes != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{name} has {num_bytes} bytes for the shape {shape}")
        values = np.frombuffer(self._take(num_bytes), dtype).reshape(shape)
        return _widened(values) if number == BFLOAT16 else values

    def _count(self, least: int, what: str) -> int:
        """A count of things that take `least` bytes each at least."""
        count, left = self._number("I"), len(self._pages) - self._at
        if count * least > left:
            raise ValueError(f"{count} {what} are announced, more than its {left} bytes left can hold")
        return int(count)

    def _string(self) -> str:
        return str(self._take(self._number("H"))[:-1], "utf-8")

    def _number(self, form: str) -> Any:
        form = f"<{form}"
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _take(self, size: int) -> memoryview:
        begin, self._at = self._at, self._at + size
        if self._at > len(self._pages):
            raise ValueError(f"it ends at byte {len(self._pages)}: the file is cut short")
        return self._pages[begin : self._at]


def _widened(values: NDArray[Any]) -> NDArray[np.float32]:
    """float32 of bfloat16, which numpy does not have."""
    return (values.astype(np.uint32) << 16).view(np.float32)
