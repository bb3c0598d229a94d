"""Inputs of a compiled model that are memory: tables in host memory, which the model reads and writes."""

from __future__ import annotations

import math
import re

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from pipelines.inference.backends.block_bytes import joined, put_back
from pipelines.inference.backends.host_memory import aligned_zeros


class TableLayout:
    """What one row holds of each input of the compiled model whose name matches `pattern`."""

    def __init__(self, compiled: ov.CompiledModel, pattern: re.Pattern[str]) -> None:
        inputs = {port.any_name: port for port in compiled.inputs if pattern.fullmatch(port.any_name)}
        self.types = {name: port.get_element_type() for name, port in inputs.items()}
        self.row_shapes = {
            name: [size.get_length() for size in list(port.get_partial_shape())[1:]]
            for name, port in inputs.items()
        }
        self.bytes_per_input = {
            name: math.prod(shape) * self.types[name].bitwidth // 8 for name, shape in self.row_shapes.items()
        }
        self.row_bytes = sum(self.bytes_per_input.values())


class InputTables:
    """`num_rows` rows of every input of a layout, all zeros, in host memory that this object owns.

    Pages are mapped at their first write.
    """

    def __init__(self, layout: TableLayout, num_rows: int) -> None:
        self.bytes = {
            name: aligned_zeros(num_rows * size).reshape(num_rows, size)
            for name, size in layout.bytes_per_input.items()
        }
        self.tensors = {
            name: ov.Tensor(
                self.bytes[name].reshape(-1), [num_rows, *layout.row_shapes[name]], layout.types[name]
            )
            for name in self.bytes
        }

    def copy(self, pairs: NDArray[np.int32]) -> None:
        """Copy row `pairs[i, 0]` to row `pairs[i, 1]` of every table; all reads precede the writes."""
        sources, targets = pairs[:, 0], pairs[:, 1]
        for rows in self.bytes.values():
            rows[targets] = rows[sources]

    def read_row(self, row: int) -> NDArray[np.uint8]:
        """uint8[row_bytes]: a copy of one row of every table, in order of their names."""
        return joined(self.bytes[name][row] for name in sorted(self.bytes))

    def write_row(self, row: int, content: NDArray[np.uint8]) -> None:
        """Replace one row of every table by what `read_row` has given."""
        put_back(content, (self.bytes[name][row] for name in sorted(self.bytes)))
