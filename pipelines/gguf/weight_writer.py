"""Writes the weights of a GGUF file into the data file of a graph, piece by piece on all cores.

The graph comes first: then the size of all weights is known before one of them is read, and memory holds few
pieces at a time, however large a tensor is.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir

from pipelines.base.load_progress import report
from pipelines.gguf.reader import GgufTensor, Rows
from pipelines.gguf.tensor_types import TYPE_NUMBERS
from pipelines.gguf.weights import is_float, read_any, read_blocks, read_packed, read_stored
from pipelines.onnx_format.onnx_writer import OnnxWriter, Room

SLICE_WEIGHTS = 1 << 17
"""Weights that are unpacked at once: few enough that what numpy makes of them stays in cache."""
TURNED_WEIGHTS = 1 << 22
"""Weights that are turned at once: more, since each column of them is written on its own."""
MAX_THREADS = 8
TYPES = {"F32": ir.DataType.FLOAT, "F16": ir.DataType.FLOAT16, "BF16": ir.DataType.BFLOAT16}


class WeightPart(NamedTuple):
    """A tensor as some rows of a weight; its own rows are taken in `order`."""

    tensor: GgufTensor
    order: Rows | None = None

    def rows(self, piece: slice) -> slice | Rows:
        """The tensor's own rows that are some of the weight's."""
        return piece if self.order is None else self.order[piece]

    def runs(self) -> Iterator[int]:
        """The places of the rows in the file, as three numbers for each run of rows at even distances: where
        the first one begins, how far the next one is, both in bytes, and how many there are.
        """
        tensor = self.tensor
        row_bytes = tensor.row_bytes
        if self.order is None:
            yield from (tensor.offset, row_bytes, tensor.rows)
            return
        begin, all_steps = 0, np.diff(self.order)
        while begin < tensor.rows:
            steps = all_steps[begin:]
            step = int(steps[0]) if len(steps) else 1
            others = np.flatnonzero(steps != step)
            count = int(others[0]) + 1 if len(others) else len(steps) + 1
            yield from (tensor.offset + int(self.order[begin]) * row_bytes, step * row_bytes, count)
            begin += count

    def place(self) -> dict[str, Any]:
        """The place of the weight in the file, as attributes of a node."""
        tensor = self.tensor
        kind = TYPE_NUMBERS[tensor.type.name]
        return {"type": kind, "K": tensor.width, "file": tensor.file, "runs": list(self.runs())}


class Blocks(NamedTuple):
    """A weight of blocks in a graph: codes uint8[rows, blocks, block · bits / 8], scales and zero points
    float32[rows, blocks]; without zero points they are 2^(bits - 1).
    """

    codes: ir.Value
    scales: ir.Value
    zeros: ir.Value | None
    bits: int
    block: int


class WeightWriter:
    """Makes initializers for the graph of `writer`, whose bytes are written at the end."""

    def __init__(self, writer: OnnxWriter) -> None:
        self._writer = writer
        self._pieces: list[Callable[[], None]] = []
        self._blocks: dict[tuple[str, int], Blocks] = {}

    def blocks(self, name: str, parts: Sequence[WeightPart], widen: bool = False, experts: int = 0) -> Blocks:
        """A weight of the rows of quantized tensors of one type, one tensor after the other.

        `widen` keeps codes of 4 bits in 8, with the same weights.  `experts`: how many have equal shares of
        the rows; they get an axis of their own, the first.
        """
        bits = 8 if widen else parts[0].tensor.type.bits
        if (name, bits) not in self._blocks:
            self._blocks[name, bits] = self._new_blocks(name, parts, bits, experts)
        return self._blocks[name, bits]

    def _new_blocks(self, name: str, parts: Sequence[WeightPart], bits: int, experts: int) -> Blocks:
        tensor, rows = parts[0].tensor, sum(part.tensor.rows for part in parts)
        kind, count = tensor.type, tensor.width // tensor.type.block
        lead = _leading_axes(rows, experts)
        row = (count, kind.block * bits // 8)
        codes = self._writer.room(f"{name}.int{bits}", (*lead, *row), ir.DataType.UINT8, len(lead))
        scales = self._writer.room(f"{name}.scales", (*lead, count), ir.DataType.FLOAT, len(lead))
        rooms = [codes, scales]
        if kind.has_zeros:
            zeros = self._writer.room(f"{name}.zeros{bits}", (*lead, count), ir.DataType.FLOAT, len(lead))
            rooms.append(zeros)
        at = 0
        for part in parts:
            for piece in _slices(part.tensor.rows, max(SLICE_WEIGHTS // part.tensor.width, 1)):
                self._pieces.append(partial(_write_blocks, rooms, at, part, piece, bits))
            at += part.tensor.rows
        return Blocks(codes.value, scales.value, rooms[2].value if kind.has_zeros else None, bits, kind.block)

    def columns(self, name: str, part: WeightPart) -> ir.Value:
        """A weight of float type, turned: [width, rows]."""
        tensor = part.tensor
        room = self._writer.room(name, (tensor.width, tensor.rows), TYPES[tensor.type.name])
        for piece in _slices(tensor.rows, max(TURNED_WEIGHTS // tensor.width, 1)):
            self._pieces.append(partial(_write_columns, room, part, piece))
        return room.value

    def table(self, name: str, part: WeightPart, experts: int = 0) -> ir.Value:
        """A weight as it is: [rows, width] of float type, or uint8[rows, bytes of a row]; with `experts`,
        [experts, their rows, …].
        """
        tensor = part.tensor
        lead, dtype, width = _leading_axes(tensor.rows, experts), ir.DataType.UINT8, tensor.row_bytes
        if is_float(tensor):
            dtype, width = TYPES[tensor.type.name], tensor.width
        room = self._writer.room(name, (*lead, width), dtype, len(lead))
        for piece in _slices(tensor.rows, max(SLICE_WEIGHTS // tensor.width, 1)):
            self._pieces.append(partial(_write_rows, room, part, piece))
        return room.value

    def floats(self, name: str, part: WeightPart, heads: int) -> ir.Value:
        """A weight of any type as float32[heads, rows of a head, width]."""
        tensor = part.tensor
        shape = (heads, tensor.rows // heads, tensor.width)
        room = self._writer.room(f"{name}.floats", shape, ir.DataType.FLOAT, axes=2)
        for piece in _slices(tensor.rows, max(SLICE_WEIGHTS // tensor.width, 1)):
            self._pieces.append(partial(_write_floats, room, part, piece))
        return room.value

    def write(self) -> None:
        """Read and write all weights.  Raises `GgufError`, and OSError before where they have no room."""
        _check_free(self._writer.folder, self._writer.num_bytes)
        with ThreadPoolExecutor(_num_threads(), thread_name_prefix="convert") as pool:
            try:
                submitted = [pool.submit(piece) for piece in self._pieces]
                for done, piece in enumerate(as_completed(submitted), 1):
                    piece.result()
                    report(done / len(submitted))
            finally:
                pool.shutdown(cancel_futures=True)


def _write_blocks(rooms: Sequence[Room], at: int, part: WeightPart, piece: slice, bits: int) -> None:
    blocks = read_blocks(part.tensor, piece, part.order, bits)
    for room, values in zip(rooms, (blocks.codes, blocks.scales, blocks.zeros), strict=False):
        assert values is not None, "as the type says"
        room.write(at + piece.start, values)


def _write_columns(room: Room, part: WeightPart, piece: slice) -> None:
    values = read_stored(part.tensor, part.rows(piece))
    if len(values) == part.tensor.rows:
        room.write(0, values.T)
    else:
        room.write_columns(piece.start, values)


def _write_rows(room: Room, part: WeightPart, piece: slice) -> None:
    read = read_stored if is_float(part.tensor) else read_packed
    room.write(piece.start, read(part.tensor, part.rows(piece)))


def _write_floats(room: Room, part: WeightPart, piece: slice) -> None:
    room.write(piece.start, read_any(part.tensor, piece, part.order))


def _leading_axes(rows: int, experts: int) -> tuple[int, ...]:
    return (experts, rows // experts) if experts else (rows,)


def _slices(count: int, step: int) -> Iterator[slice]:
    for begin in range(0, count, step):
        yield slice(begin, min(begin + step, count))


def _check_free(folder: Path, num_bytes: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < num_bytes:
        needed, left = (number // 1_000_000 for number in (num_bytes, free))
        raise OSError(errno.ENOSPC, f"it takes {needed} MB, of which {left} are free")


def _num_threads() -> int:
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return min(len(cores), MAX_THREADS)
