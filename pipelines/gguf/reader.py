"""Reads a GGUF file, or all parts of one: its metadata and where its tensors lie.

Every count and offset is compared with the file's size before it is used, so that a damaged or hostile file
gives a `GgufError`, not an allocation.  Rows of tensors are read when they are needed.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pipelines.gguf.blocks import Bytes
from pipelines.gguf.errors import GgufError
from pipelines.gguf.file_bytes import FileBytes
from pipelines.gguf.parts import all_parts
from pipelines.gguf.tensor_types import OTHER_TYPES, TENSOR_TYPES, TensorType

MAGIC, VERSIONS = b"GGUF", (2, 3)
EVERY = slice(None)
ALIGNMENT_KEY, ALIGNMENT = "general.alignment", 32
MAX_ALIGNMENT, MAX_AXES, MAX_KEY_BYTES = 1 << 16, 4, 1 << 16
MAX_HEADER_BYTES, PIECE_BYTES = 1 << 28, 1 << 22
"""Bytes of metadata and descriptions of tensors: the most in all, and what is read at once."""
NEAR = 8
"""Rows in another order are read together where they lie within this many times their number."""
STRING, ARRAY, BOOL = 8, 9, 7
NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    BOOL: "B",
    10: "Q",
    11: "q",
    12: "d",
}
"""Type of a value → its letter in `struct`, whose little-endian sizes are numpy's too."""
UNPACK = {form: struct.Struct("<" + form) for form in NUMBERS.values()}
LEAST_KEY, LEAST_TENSOR, LEAST_STRING = 8 + 4 + 1, 8 + 4 + 8 + 4 + 8, 8
"""Bytes of the shortest metadata entry, description of a tensor, and string."""
NUM_PARTS, PART_NUMBER, NUM_TENSORS = "split.count", "split.no", "split.tensors.count"
"""What each part says of itself and of the whole; the first one is number 0."""


Rows = NDArray[np.int64]
"""Which row of a tensor becomes each row of what is read."""


class TensorSource(Protocol):
    """What the bytes of tensors are read from."""

    def read(self, offset: int, size: int) -> Bytes: ...


@dataclass(frozen=True)
class GgufTensor:
    """One tensor of `rows` of `width` weights each, in `source`.

    `offset`: where in its file it begins, in bytes; `file`: which of the model's parts that is, from 0.
    """

    name: str
    type: TensorType
    rows: int
    width: int
    source: TensorSource
    offset: int = 0
    file: int = 0

    @property
    def row_bytes(self) -> int:
        return self.width // self.type.weights * self.type.bytes

    def read(self, rows: slice | Rows = EVERY) -> Bytes:
        """uint8[rows, bytes of a row], from any thread.  Raises `GgufError`."""
        if isinstance(rows, slice):
            begin, end, _ = rows.indices(self.rows)
            return self._read(begin, end)
        first, last = int(rows.min()), int(rows.max())
        if last - first < NEAR * len(rows):
            return self._read(first, last + 1)[rows - first]
        return np.concatenate([self._read(int(row), int(row) + 1) for row in rows])

    def _read(self, begin: int, end: int) -> Bytes:
        size = self.row_bytes
        return self.source.read(self.offset + begin * size, (end - begin) * size).reshape(-1, size)


Place = tuple[str, TensorType, list[int], int]
"""Name, type, sizes of the axes (innermost first) and offset of a tensor."""


@dataclass(frozen=True)
class GgufFile:
    """`fields`: numbers, texts, lists of texts and arrays of numbers, by key.  `tensors` by name."""

    fields: dict[str, Any]
    tensors: dict[str, GgufTensor]


def read_gguf(path: Path) -> GgufFile:
    """Read a file, or all parts of the model that it is a part of; the first one has the metadata.

    They are open as long as a tensor lives.  Raises `GgufError`.
    """
    paths = all_parts(path)
    first, tensors = _read_part(paths, 0), dict[str, GgufTensor]()
    for number in range(len(paths)):
        part = _read_part(paths, number) if number else first
        if twice := sorted(tensors.keys() & part.tensors.keys()):
            raise GgufError(f"has two tensors {twice[0]}, the second one in {paths[number].name}")
        tensors |= {name: replace(tensor, file=number) for name, tensor in part.tensors.items()}
    announced = first.fields.get(NUM_TENSORS, len(tensors))
    if announced != len(tensors):
        raise GgufError(f"announces {announced} tensors in its parts, which hold {len(tensors)}")
    return GgufFile(first.fields, tensors)


def _read_part(paths: list[Path], number: int) -> GgufFile:
    """One part, which must say what its name says."""
    try:
        part = _read_file(paths[number])
    except GgufError as error:
        raise GgufError(f"{paths[number].name} {error}" if number else str(error)) from error
    except OSError as error:
        raise GgufError(f"cannot be read: {error}") from error
    count, own = (part.fields.get(key, default) for key, default in ((NUM_PARTS, 1), (PART_NUMBER, 0)))
    if max(count, 1) != len(paths) or own != number:
        raise GgufError(
            f"holds part {own + 1} of {count} in {paths[number].name}; parts keep the names that they were "
            "written with, NAME-00001-of-00002.gguf"
        )
    return part


def _read_file(path: Path) -> GgufFile:
    file = FileBytes(path)
    if file.size < 24:
        raise GgufError("is too short for a GGUF file")
    return _FileReader(file).read()


class _FileReader:
    """A place in the file that only moves forward."""

    def __init__(self, file: FileBytes) -> None:
        self._file, self._at = file, 0
        self._held = bytearray()

    def read(self) -> GgufFile:
        if self._take(4) != MAGIC:
            raise GgufError("does not begin with GGUF")
        version = self._number("I")
        if version not in VERSIONS:
            raise GgufError(f"is of GGUF version {version}; versions 2 and 3, little-endian, are read")
        num_tensors = self._count(LEAST_TENSOR, "tensors")
        num_fields = self._count(LEAST_KEY, "metadata entries")
        fields = self._fields(num_fields)
        places = [self._place() for _ in range(num_tensors)]
        return GgufFile(fields, self._tensors(places, _alignment(fields)))

    def _fields(self, count: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for _ in range(count):
            key = self._string(MAX_KEY_BYTES)
            if key in fields:
                raise GgufError(f"has two entries {key}")
            fields[key] = self._value(key)
        return fields

    def _value(self, key: str) -> Any:
        kind = self._number("I")
        if kind == STRING:
            return self._string()
        if kind == ARRAY:
            return self._array(key)
        if kind not in NUMBERS:
            raise GgufError(f"{key} is of type {kind}, which GGUF does not have")
        number = self._number(NUMBERS[kind])
        return bool(number) if kind == BOOL else number

    def _array(self, key: str) -> Any:
        kind = self._number("I")
        if kind == STRING:
            return self._strings(self._count(LEAST_STRING, key))
        if kind not in NUMBERS:
            raise GgufError(f"{key} is an array of type {kind}; arrays of numbers and of texts are read")
        dtype = np.dtype("<" + NUMBERS[kind])
        count = self._count(dtype.itemsize, key)
        return np.frombuffer(self._take(count * dtype.itemsize), dtype)

    def _place(self) -> Place:
        """The description of the next tensor."""
        name = self._string(MAX_KEY_BYTES)
        num_axes = self._number("I")
        if not 1 <= num_axes <= MAX_AXES:
            raise GgufError(f"{name} has {num_axes} axes; 1 to {MAX_AXES} are read")
        axes = [self._number("Q") for _ in range(num_axes)]
        kind, offset = self._number("I"), self._number("Q")
        if kind not in TENSOR_TYPES:
            raise GgufError(
                f"{name} is of type {OTHER_TYPES.get(kind, kind)}, which is not served; {_readable()}"
            )
        return name, TENSOR_TYPES[kind], axes, offset

    def _tensors(self, places: list[Place], align: int) -> dict[str, GgufTensor]:
        start = -(-self._at // align) * align
        end, tensors = start, dict[str, GgufTensor]()
        for name, kind, axes, offset in sorted(places, key=lambda place: place[3]):
            width, rows = axes[0], math.prod(axes[1:])
            if not width or not rows or width % kind.weights:
                raise GgufError(f"{name} has the shape {axes}, which {kind.name} does not allow")
            row_bytes = width // kind.weights * kind.bytes
            begin = start + offset
            if begin < end or offset % align:
                raise GgufError(f"{name} lies at {offset}, inside another tensor or not aligned to {align}")
            end = begin + rows * row_bytes
            if end > self._file.size:
                raise GgufError(f"{name} ends at byte {end} of {self._file.size}: the file is cut short")
            if name in tensors:
                raise GgufError(f"has two tensors {name}")
            tensors[name] = GgufTensor(name, kind, rows, width, self._file, begin)
        return tensors

    def _count(self, least: int, what: str) -> int:
        """A count of things that take `least` bytes each at least."""
        count, left = self._number("Q"), self._file.size - self._at
        if count * least > left:
            raise GgufError(f"announces {count} {what}, more than its {left} bytes left can hold")
        return int(count)

    def _string(self, longest: int | None = None) -> str:
        size = self._count(1, "bytes of text")
        if longest is not None and size > longest:
            raise GgufError(f"has a name of {size} bytes")
        try:
            return str(self._take(size), "utf-8")
        except UnicodeDecodeError as error:
            raise GgufError(f"holds a text that is not UTF-8: {error}") from error

    def _strings(self, count: int) -> list[str]:
        """Texts one after the other; with `_string` those of a vocabulary take a second."""
        held, end, size_at = self._held, len(self._held), UNPACK["Q"].unpack_from
        texts, at = list[str](), self._at
        try:
            for _ in range(count):
                begin = at + LEAST_STRING
                if begin > end:
                    end = self._hold(begin)
                at = begin + size_at(held, at)[0]
                if at > end:
                    end = self._hold(at)
                texts.append(str(held[begin:at], "utf-8"))
        except UnicodeDecodeError as error:
            raise GgufError(f"holds a text that is not UTF-8: {error}") from error
        self._at = at
        return texts

    def _number(self, form: str) -> Any:
        return UNPACK[form].unpack(self._take(UNPACK[form].size))[0]

    def _take(self, size: int) -> bytearray:
        begin, self._at = self._at, self._at + size
        self._hold(self._at)
        return self._held[begin : self._at]

    def _hold(self, end: int) -> int:
        """Read on until what is before `end` is held; returns how many bytes are."""
        held, size = len(self._held), self._file.size
        if end > size:
            raise GgufError(f"ends at byte {size}, before its metadata does")
        if end > MAX_HEADER_BYTES:
            raise GgufError(f"has more than {MAX_HEADER_BYTES} bytes of metadata")
        if end > held:
            self._held += self._file.read(held, min(max(end - held, PIECE_BYTES), size - held)).data
        return len(self._held)


def _alignment(fields: dict[str, Any]) -> int:
    align = fields.get(ALIGNMENT_KEY, ALIGNMENT)
    is_power = isinstance(align, int) and 0 < align <= MAX_ALIGNMENT and align & (align - 1) == 0
    if not is_power:
        raise GgufError(f"{ALIGNMENT_KEY} is {align!r}, not a power of two up to {MAX_ALIGNMENT}")
    return int(align)


def _readable() -> str:
    return "these types are: " + ", ".join(kind.name for kind in TENSOR_TYPES.values())
