"""Writes a graph in Braid's ONNX format: nodes in order, and weights straight into the data file."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir

from pipelines.onnx_format.decoder_format import DOMAIN, IR_VERSION, OPSET, VERSION

CONTRIB = "com.microsoft"
PAGE_BYTES = 4096
SMALL_BYTES = 1024
"""Arrays up to this size are in the graph itself."""


class Room(NamedTuple):
    """An initializer whose rows are written later, in any order, from any thread, until the writer closes."""

    value: ir.Value
    file: int
    offset: int
    row_bytes: int

    def write(self, first: int, rows: np.ndarray) -> None:
        """Write `rows` as the rows from `first` on.  Raises OSError."""
        _write_at(self.file, self.offset + first * self.row_bytes, rows)

    def write_columns(self, first: int, columns: np.ndarray) -> None:
        """Write the rows of `columns` as the columns from `first` on.  Raises OSError."""
        begin = self.offset + first * columns.itemsize
        for number, row in enumerate(np.ascontiguousarray(columns.T)):
            _write_at(self.file, begin + number * self.row_bytes, row)


class OnnxWriter:
    """Writes `name`.onnx and its data file.  Use it as a context: leaving it closes the data file."""

    def __init__(self, folder: Path, name: str = "model") -> None:
        self.folder = folder
        self._path = folder / f"{name}.onnx"
        self._data_name = f"{name}.onnx.data"
        self._data = (folder / self._data_name).open("wb")
        self.num_bytes = 0
        self._nodes: list[ir.Node] = []
        self._initializers: dict[str, ir.Value] = {}

    def __enter__(self) -> OnnxWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._data.close()

    def op(self, kind: str, *inputs: ir.Value | None, domain: str = "", **attributes: Any) -> ir.Value:
        """Add a node and return its one output."""
        self._nodes.append(ir.node(kind, inputs, attributes, domain=domain))
        return self._nodes[-1].outputs[0]

    def ops(self, kind: str, *inputs: ir.Value | None, count: int, **attributes: Any) -> Sequence[ir.Value]:
        """Add a node and return its `count` outputs."""
        self._nodes.append(ir.node(kind, inputs, attributes, num_outputs=count))
        return self._nodes[-1].outputs

    def split(self, value: ir.Value, *sizes: int) -> Sequence[ir.Value]:
        """Parts of the last axis."""
        return self.ops("Split", value, self.ints(*sizes), count=len(sizes), axis=-1)

    def ints(self, *numbers: int) -> ir.Value:
        """int64[len(numbers)]."""
        return self.store("ints." + "_".join(map(str, numbers)), np.array(numbers, np.int64))

    def number(self, number: float) -> ir.Value:
        """A float32 scalar."""
        return self.store(f"number.{number!r}", np.array(number, np.float32))

    def store(self, name: str, array: np.ndarray, dtype: ir.DataType | None = None) -> ir.Value:
        """The initializer of this name, written at the first call; `dtype` where numpy has no such type."""
        if name not in self._initializers:
            dtype = dtype or ir.DataType.from_numpy(array.dtype)
            small = array.nbytes <= SMALL_BYTES
            tensor = ir.tensor(array.copy(), dtype, name=name) if small else self._write(name, array, dtype)
            value = ir.val(name, dtype, list(array.shape), const_value=tensor)
            self._initializers[name] = value
        return self._initializers[name]

    def room(self, name: str, shape: tuple[int, ...], dtype: ir.DataType, axes: int = 1) -> Room:
        """The initializer of this name, with the place of its bytes in the data file; its first `axes` are
        those of its rows.
        """
        if name not in self._initializers:
            placed = self._place(name, shape, dtype)
            self._initializers[name] = ir.val(name, dtype, list(shape), const_value=placed)
        value = self._initializers[name]
        tensor = value.const_value
        assert isinstance(tensor, ir.ExternalTensor), f"{name} is in the data file"
        return Room(value, self._data.fileno(), tensor.offset or 0, tensor.nbytes // math.prod(shape[:axes]))

    def save(self, inputs: list[ir.Value], outputs: list[ir.Value], name: str) -> None:
        graph = ir.Graph(
            inputs,
            outputs,
            nodes=self._nodes,
            initializers=list(self._initializers.values()),
            opset_imports={"": OPSET, DOMAIN: VERSION, CONTRIB: 1},
            name=name,
        )
        ir.save(ir.Model(graph, ir_version=IR_VERSION, producer_name="braid"), self._path)

    def _write(self, name: str, array: np.ndarray, dtype: ir.DataType) -> ir.ExternalTensor:
        tensor = self._place(name, array.shape, dtype)
        _write_at(self._data.fileno(), tensor.offset or 0, array)
        return tensor

    def _place(self, name: str, shape: tuple[int, ...], dtype: ir.DataType) -> ir.ExternalTensor:
        offset = self.num_bytes + -self.num_bytes % PAGE_BYTES
        size = math.ceil(math.prod(shape) * dtype.itemsize)
        self.num_bytes = offset + size
        return ir.ExternalTensor(
            self._data_name,
            offset,
            size,
            dtype,
            shape=ir.Shape(shape),
            name=name,
            base_dir=self.folder,
        )


def _write_at(file: int, offset: int, array: np.ndarray) -> None:
    """One call writes 2 GB at most."""
    left = memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    while left:
        written = os.pwrite(file, left, offset)
        left, offset = left[written:], offset + written
