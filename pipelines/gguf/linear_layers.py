"""Linear layers with a GGUF file's weights, and lookups in its table of embeddings, as nodes of an ONNX
graph.

Blocks of 4 and 8 bits become MatMulNBits, with float32 zero points where the blocks have least weights of
their own; each engine lowers those to what it computes fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import onnx_ir as ir

from pipelines.gguf.errors import GgufError
from pipelines.gguf.reader import GgufTensor, Rows
from pipelines.gguf.tensor_types import PACKED_TYPES, TYPE_NUMBERS, Floats
from pipelines.gguf.weight_writer import WeightPart, WeightWriter
from pipelines.gguf.weights import DTYPES, is_float, read_floats
from pipelines.onnx_format.decoder_format import AND, DOMAIN, GGUF_LINEAR, GGUF_ROWS
from pipelines.onnx_format.onnx_writer import CONTRIB, OnnxWriter

F32 = ir.DataType.FLOAT
HALVES = ("F16", "BF16")
INT8_SUMS, FLOAT_SUMS = 4, 0
"""accuracy_level of MatMulNBits: ONNX Runtime may round activations to int8, or computes in float32."""
MIDDLE = 128.0
"""The zero point of 8 bits where blocks have none."""


class Operand(NamedTuple):
    """A weight by the beginning of its tensors' names; its rows are taken in `order`."""

    name: str
    rows: int
    order: Rows | None = None


class LinearLayers:
    """The tensors of a file as operands.

    `accuracy_level` is MatMulNBits': 4 lets ONNX Runtime round activations to int8, 0 is float32; None leaves
    the weights of linear layers in the file (`braid::GgufLinear`), and blocks of a table as they are.
    """

    def __init__(
        self, writer: OnnxWriter, tensors: Mapping[str, GgufTensor], accuracy_level: int | None
    ) -> None:
        self._writer, self._tensors = writer, tensors
        self.in_file = accuracy_level is None
        self.accuracy_level = INT8_SUMS if accuracy_level is None else accuracy_level
        self.weights = WeightWriter(writer)
        self._used: set[str] = set()

    def has(self, name: str) -> bool:
        return name in self._tensors

    def unused(self) -> set[str]:
        """The tensors that no operand was made of."""
        return set(self._tensors) - self._used

    def tensor(self, name: str, rows: int | None, width: int | None) -> GgufTensor:
        """The tensor of this name; raises `GgufError` unless it has this shape (None: any)."""
        if name not in self._tensors:
            raise GgufError(f"has no tensor {name}")
        tensor = self._tensors[name]
        if width not in (None, tensor.width) or rows not in (None, tensor.rows):
            raise GgufError(f"{name} is {tensor.rows} × {tensor.width}, not {rows or 'n'} × {width or 'n'}")
        self._used.add(name)
        return tensor

    def vector(self, name: str, size: int) -> Floats:
        """float32[size] of a norm or a bias."""
        tensor = self.tensor(name, 1, size)
        if not is_float(tensor):
            raise GgufError(f"{name} is of type {tensor.type.name}; vectors are F32, F16 or BF16")
        values: Floats = read_floats(tensor)[0]
        return values

    def multiply(self, rows: ir.Value, tensor: GgufTensor, name: str, order: Rows | None = None) -> ir.Value:
        """`rows` · weightᵀ, the rows of the weight taken in `order`; `name` is that of the operand."""
        part = WeightPart(tensor, order)
        if is_float(tensor):
            columns = self._widened(self.weights.columns(name, part), tensor)
            return self._writer.op("MatMul", rows, columns)
        return self._multiply_blocks(rows, name, [part])

    def linear(
        self, rows: ir.Value, name: str, outer: int, inner: int, order: Rows | None = None
    ) -> ir.Value:
        """`rows` · weightᵀ of the weight `name`, and its bias where the file has one."""
        return next(self.linear_together(rows, [Operand(name, outer, order)], inner))

    def linear_together(self, rows: ir.Value, operands: Iterable[Operand], inner: int) -> Iterator[ir.Value]:
        """Multiplies `rows` by several weights: neighbours of one quantized type are one linear layer."""
        for kind, group in groupby(operands, self._type):
            same = list(group)
            found = self._linears(rows, same, inner, kind)
            yield from (self._biased(linear, each) for linear, each in zip(found, same, strict=True))

    def _type(self, operand: Operand) -> str:
        return self.tensor(f"{operand.name}.weight", operand.rows, width=None).type.name

    def _linears(
        self, rows: ir.Value, operands: Sequence[Operand], inner: int, kind: str
    ) -> Iterable[ir.Value]:
        tensors = [self.tensor(f"{operand.name}.weight", operand.rows, inner) for operand in operands]
        if kind in DTYPES or len(operands) == 1:
            pairs = zip(tensors, operands, strict=True)
            return [self.multiply(rows, tensor, operand.name, operand.order) for tensor, operand in pairs]
        parts = [WeightPart(tensor, operand.order) for tensor, operand in zip(tensors, operands, strict=True)]
        linear = self._multiply_blocks(rows, f"{operands[0].name}{AND}", parts)
        return self._writer.split(linear, *(operand.rows for operand in operands))

    def _biased(self, linear: ir.Value, operand: Operand) -> ir.Value:
        name, order = f"{operand.name}.bias", operand.order
        if not self.has(name):
            return linear
        bias = self.vector(name, operand.rows)
        return self._writer.op(
            "Add", linear, self._writer.store(name, bias if order is None else bias[order])
        )

    def _multiply_blocks(self, rows: ir.Value, name: str, parts: Sequence[WeightPart]) -> ir.Value:
        """`rows` · weightᵀ of the rows of quantized tensors of one type, one tensor after the other."""
        files = {part.tensor.file for part in parts}
        if self.in_file and parts[0].tensor.type.name in PACKED_TYPES and len(files) == 1:
            return self._multiply_in_file(rows, name, parts)
        weight = self.weights.blocks(name, parts)
        assert weight.codes.shape is not None, "as it was written"
        return self._writer.op(
            "MatMulNBits",
            rows,
            weight.codes,
            weight.scales,
            *(() if weight.zeros is None else (weight.zeros,)),
            domain=CONTRIB,
            K=parts[0].tensor.width,
            N=weight.codes.shape[0],
            bits=weight.bits,
            block_size=weight.block,
            accuracy_level=self.accuracy_level,
        )

    def _multiply_in_file(self, rows: ir.Value, name: str, parts: Sequence[WeightPart]) -> ir.Value:
        place = parts[0].place() | {"runs": [number for part in parts for number in part.runs()]}
        num_rows = sum(part.tensor.rows for part in parts)
        return self._writer.op(GGUF_LINEAR, rows, domain=DOMAIN, weight=name, N=num_rows, **place)

    def look_up(self, ids: ir.Value, tensor: GgufTensor) -> ir.Value:
        """The embeddings of ids [1, tokens]; the table is the head's where both are of 8 bits."""
        op = self._writer.op
        if is_float(tensor):
            table = self.weights.table(f"{tensor.name}.table", WeightPart(tensor))
            return self._widened(op("Gather", table, ids), tensor)
        if self.in_file and tensor.type.name in PACKED_TYPES:
            table = self.weights.table(f"{tensor.name}.blocks", WeightPart(tensor))
            kind = TYPE_NUMBERS[tensor.type.name]
            return op(GGUF_ROWS, ids, table, domain=DOMAIN, type=kind, K=tensor.width)
        weight = self.weights.blocks(tensor.name, [WeightPart(tensor)], widen=True)
        zero = self._writer.number(MIDDLE) if weight.zeros is None else self._of_blocks(weight.zeros, ids)
        codes = op("Cast", op("Gather", weight.codes, ids), to=F32)
        embeddings = op("Mul", op("Sub", codes, zero), self._of_blocks(weight.scales, ids))
        return op("Reshape", embeddings, self._writer.ints(1, -1, tensor.width))

    def write_weights(self) -> None:
        """Write the weights of all operands to the data file.  Raises `GgufError` and OSError."""
        self.weights.write()

    def _of_blocks(self, values: ir.Value, ids: ir.Value) -> ir.Value:
        """The numbers [1, tokens, blocks, 1] of the rows `ids` of `values`."""
        return self._writer.op("Unsqueeze", self._writer.op("Gather", values, ids), self._writer.ints(3))

    def _widened(self, value: ir.Value, tensor: GgufTensor) -> ir.Value:
        return self._writer.op("Cast", value, to=F32) if tensor.type.name in HALVES else value
