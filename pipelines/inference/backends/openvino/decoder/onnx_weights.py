"""Prepares the weights of an ONNX graph so that OpenVINO uses them in place, without a copy.

OpenVINO's own conversion opens only files below the working directory, copies every MatMulNBits weight, and
converts float16 tables to float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import openvino as ov
from openvino import opset13 as ops

from pipelines.inference.backends.onnx.expert_linears import E2M1_LINEAR
from pipelines.inference.backends.openvino.model.mapped_files import MappedFile
from pipelines.onnx_format.decoder_format import DOMAIN

BLOCK_MATMUL = "BlockMatMul"
"""A MatMulNBits with a weight typed [outer, blocks, block]; it exists during the conversion only."""
BLOCK_TYPES = {8: ir.DataType.UINT8, 4: ir.DataType.UINT4, 2: ir.DataType.UINT2}
"""Bits of a code → the type of codes."""
TYPES = {
    ir.DataType.FLOAT: ov.Type.f32,
    ir.DataType.FLOAT16: ov.Type.f16,
    ir.DataType.BFLOAT16: ov.Type.bf16,
    ir.DataType.INT8: ov.Type.i8,
    ir.DataType.UINT8: ov.Type.u8,
    ir.DataType.INT4: ov.Type.i4,
    ir.DataType.UINT4: ov.Type.u4,
    ir.DataType.UINT2: ov.Type.u2,
    ir.DataType.FLOAT4E2M1: ov.Type.f4e2m1,
}
READ_AS = {ir.DataType.UINT2: ir.DataType.UINT4}
"""Types that OpenVINO's conversion does not know → the types of their parameters, until they are attached."""
SMALL_BYTES = 1024
"""Tensors up to this size are put into the graph: shapes and others that a conversion may need to read."""


@dataclass
class DetachedWeights:
    """Weights that were taken out of a graph, by name, and their mapped data files.

    A compiled model reads the maps in place: hold `files` as long as it is used.
    """

    tensors: dict[str, ir.ExternalTensor]
    folder: Path
    files: dict[str, MappedFile]

    def attach(self, model: ov.Model) -> None:
        """Replace the parameters of the model by the weights of the same name."""
        for parameter in model.get_parameters():
            tensor = self.tensors.get(parameter.output(0).any_name)
            if tensor is not None:
                parameter.output(0).replace(self._constant(tensor).output(0))
                model.remove_parameter(parameter)

    def _constant(self, tensor: ir.ExternalTensor) -> ov.Node:
        data, begin = self._map(str(tensor.location)).bytes, tensor.offset or 0
        view = ov.Tensor(data[begin : begin + tensor.nbytes], list(tensor.shape), TYPES[tensor.dtype])
        return ov.op.Constant(view, shared_memory=True)

    def _map(self, name: str) -> MappedFile:
        if name not in self.files:
            self.files[name] = MappedFile(self.folder / name)
        return self.files[name]


def detach_weights(graph: ir.Graph, folder: Path) -> DetachedWeights:
    """Make weights in data files inputs of the graph, and read all small tensors into the graph."""
    weights = DetachedWeights({}, folder, {})
    for name, value in list(graph.initializers.items()):
        tensor = value.const_value
        if not isinstance(tensor, ir.ExternalTensor):
            continue
        if _is_small(tensor) or tensor.dtype not in TYPES or _needs_constant(value):
            value.const_value = ir.tensor(tensor.numpy().copy(), dtype=tensor.dtype, name=name)
            continue
        weights.tensors[name] = tensor
        value.dtype, value.shape = READ_AS.get(tensor.dtype, tensor.dtype), tensor.shape
        value.const_value = None
        graph.initializers.pop(name)
        graph.inputs.append(value)
    return weights


def _is_small(tensor: ir.ExternalTensor) -> bool:
    return tensor.nbytes <= SMALL_BYTES and tensor.dtype not in READ_AS


def _needs_constant(value: ir.Value) -> bool:
    """Whether OpenVINO's conversion of a user (MatMulNBits) needs the weight as a constant."""
    return any(user.op_type == "MatMulNBits" for user, _ in value.uses())


def rewrite_compressed_weights(graph: ir.Graph) -> None:
    """Rewrite linear layers of few bits whose codes can be read in place, and lookups in float16 tables;
    reads no weight.
    """
    for node in list(graph):
        if _is_read_in_place(node):
            _type_weight(node)
            sizes = {name: node.attributes[name].as_int() for name in ("N", "K", "bits")}
            matmul = ir.node(BLOCK_MATMUL, list(node.inputs), sizes, domain=DOMAIN, name=node.name)
            _replace(graph, node, [matmul])
        elif (lookup := _widened_lookup(node)) is not None:
            table = ir.node("Cast", [lookup.inputs[0]], dict(node.attributes), name=f"{node.name}.table")
            rows = ir.node("Gather", [*table.outputs, lookup.inputs[1]], dict(lookup.attributes))
            _replace(graph, node, [table, rows])


def _is_read_in_place(node: ir.Node) -> bool:
    """Whether the node is a linear layer of whole blocks, whose zero points are floats, whole bytes for each
    row, or absent, without prepacking.
    """
    if (node.domain, node.op_type) == (DOMAIN, E2M1_LINEAR):
        return True
    if (node.domain, node.op_type) != ("com.microsoft", "MatMulNBits"):
        return False
    weight, zeros = node.inputs[1], node.inputs[3] if len(node.inputs) > 3 else None
    if any(value is not None for value in node.inputs[4:]) or weight is None or not weight.is_initializer():
        return False
    if zeros is not None and not zeros.is_initializer():
        return False
    number = {
        name: value.as_int() for name, value in node.attributes.items() if value.type == ir.AttributeType.INT
    }
    bits, inner, block = number.get("bits", 4), number["K"], number["block_size"]
    return (
        bits in BLOCK_TYPES
        and inner % block == 0
        and not number.get("weight_prepacked")
        and (zeros is None or _can_be_typed(zeros, inner // block * bits))
    )


def _can_be_typed(zeros: ir.Value, row_bits: int) -> bool:
    return zeros.dtype == ir.DataType.FLOAT or row_bits % 8 == 0


def _type_weight(node: ir.Node) -> None:
    """Declare the packed codes, and zero points that are codes, as [outer, blocks, block] of their real type,
    over the same bytes.
    """
    outer, inner, block = (node.attributes[name].as_int() for name in ("N", "K", "block_size"))
    dtype = BLOCK_TYPES[node.attributes["bits"].as_int()]
    weight, zeros = node.inputs[1], node.inputs[3] if len(node.inputs) > 3 else None
    if zeros is not None and zeros.dtype != ir.DataType.FLOAT:
        _declare(zeros, dtype, ir.Shape([outer, inner // block, 1]))
    is_e2m1 = node.op_type == E2M1_LINEAR
    _declare(weight, ir.DataType.FLOAT4E2M1 if is_e2m1 else dtype, ir.Shape([outer, inner // block, block]))


def _declare(value: ir.Value | None, dtype: ir.DataType, shape: ir.Shape) -> None:
    assert value is not None
    if (value.dtype, value.shape) != (dtype, shape):
        value.const_value = _retyped(value.const_value, dtype, shape)
        value.dtype, value.shape = dtype, shape


def _retyped(tensor: Any, dtype: ir.DataType, shape: ir.Shape) -> Any:
    if isinstance(tensor, ir.ExternalTensor):
        place = tensor.location, tensor.offset, tensor.length
        return ir.ExternalTensor(*place, dtype, shape=shape, name=tensor.name, base_dir=tensor.base_dir)
    if dtype == ir.DataType.UINT8:
        return ir.tensor(tensor.numpy().reshape(*shape.numpy()), dtype, name=tensor.name)
    return ir.PackedTensor(tensor.numpy().reshape(-1), dtype, shape=shape, name=tensor.name)


def _widened_lookup(node: ir.Node) -> ir.Node | None:
    """The Gather from a float16 table whose result `node` alone reads and casts to float32."""
    if node.op_type != "Cast" or node.attributes["to"].as_int() != ir.DataType.FLOAT:
        return None
    source = node.inputs[0]
    lookup = None if source is None or len(source.uses()) != 1 else source.producer()
    if lookup is None or lookup.op_type != "Gather":
        return None
    table = lookup.inputs[0]
    is_half = table is not None and table.is_initializer() and table.dtype == ir.DataType.FLOAT16
    return lookup if is_half else None


def _replace(graph: ir.Graph, node: ir.Node, by: list[ir.Node]) -> None:
    old, new = node.outputs[0], by[-1].outputs[0]
    new.name, new.type, new.shape = old.name, old.type, old.shape
    ir.convenience.replace_nodes_and_values(graph, node, [node], by, [old], [new])


def convert_block_matmul(node: Any) -> list[ov.Output]:
    """OpenVINO's nodes for BLOCK_MATMUL, in the pattern that its devices recognize as a compressed weight."""
    outer, inner, bits = (node.get_attribute(name) for name in ("N", "K", "bits"))
    rows, weight, scales, *zeros = (node.get_input(number) for number in range(node.get_input_size()))
    dtype, codes = rows.get_element_type(), weight.get_element_type()
    values = ops.convert(weight, dtype)
    if codes != ov.Type.f4e2m1:
        middle = ops.constant(np.full(1, 1 << (bits - 1)), codes).output(0)
        values = ops.subtract(values, _zero(zeros[0] if zeros else middle, outer, dtype))
    blocks = ops.multiply(values, ops.reshape(scales, ops.constant([outer, -1, 1]), False))
    weights = ops.reshape(blocks, ops.constant([outer, inner]), False)
    outputs: list[ov.Output] = ops.matmul(rows, weights, False, True).outputs()
    return outputs


def _zero(zero: ov.Output, outer: int, dtype: ov.Type) -> ov.Output:
    """Zero points of a row's groups as `dtype`; codes have their shape."""
    if zero.get_element_type() == dtype:
        return ops.reshape(zero, ops.constant([outer, -1, 1]), False).output(0)
    return ops.convert(zero, dtype).output(0)
