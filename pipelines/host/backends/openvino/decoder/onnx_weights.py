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

from pipelines.host.backends.openvino.model.mapped_files import MappedFile
from pipelines.onnx_format.decoder_format import DOMAIN

BLOCK_MATMUL = "BlockMatMul"
"""A MatMulNBits with a weight typed [outer, blocks, block]; it exists during the conversion only."""
BLOCK_TYPES = {8: (ir.DataType.UINT8, ov.Type.u8), 4: (ir.DataType.UINT4, ov.Type.u4)}
TYPES = {
    ir.DataType.FLOAT: ov.Type.f32,
    ir.DataType.FLOAT16: ov.Type.f16,
    ir.DataType.BFLOAT16: ov.Type.bf16,
    ir.DataType.INT8: ov.Type.i8,
    ir.DataType.UINT8: ov.Type.u8,
    ir.DataType.INT4: ov.Type.i4,
    ir.DataType.UINT4: ov.Type.u4,
}
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
        if tensor.nbytes <= SMALL_BYTES or tensor.dtype not in TYPES or _needs_constant(value):
            value.const_value = ir.tensor(tensor.numpy().copy(), dtype=tensor.dtype, name=name)
            continue
        weights.tensors[name] = tensor
        value.dtype, value.shape, value.const_value = tensor.dtype, tensor.shape, None
        graph.initializers.pop(name)
        graph.inputs.append(value)
    return weights


def _needs_constant(value: ir.Value) -> bool:
    """Whether OpenVINO's conversion of a user (MatMulNBits) needs the weight as a constant."""
    return any(user.op_type == "MatMulNBits" for user, _ in value.uses())


def rewrite_compressed_weights(graph: ir.Graph) -> None:
    """Rewrite MatMulNBits of 4 and 8 bits whose zero points are floats or the middle, and lookups in float16
    tables; reads no weight.
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
    """Whether the node is a MatMulNBits of whole blocks, without packed zero points and prepacking."""
    if (node.domain, node.op_type) != ("com.microsoft", "MatMulNBits"):
        return False
    weight, zeros = node.inputs[1], node.inputs[3] if len(node.inputs) > 3 else None
    if any(value is not None for value in node.inputs[4:]) or weight is None or not weight.is_initializer():
        return False
    if zeros is not None and (not zeros.is_initializer() or zeros.dtype != ir.DataType.FLOAT):
        return False
    number = {
        name: value.as_int() for name, value in node.attributes.items() if value.type == ir.AttributeType.INT
    }
    return (
        number.get("bits", 4) in BLOCK_TYPES
        and number["K"] % number["block_size"] == 0
        and not number.get("weight_prepacked")
    )


def _type_weight(node: ir.Node) -> None:
    """Declare the packed weight as [outer, blocks, block] of its real type, over the same bytes."""
    weight = node.inputs[1]
    assert weight is not None
    outer, inner, block = (node.attributes[name].as_int() for name in ("N", "K", "block_size"))
    dtype, _ = BLOCK_TYPES[node.attributes["bits"].as_int()]
    shape = ir.Shape([outer, inner // block, block])
    if weight.dtype == dtype:
        return
    weight.const_value = _retyped(weight.const_value, dtype, shape)
    weight.dtype, weight.shape = dtype, shape


def _retyped(tensor: Any, dtype: ir.DataType, shape: ir.Shape) -> Any:
    if isinstance(tensor, ir.ExternalTensor):
        place = tensor.location, tensor.offset, tensor.length
        return ir.ExternalTensor(*place, dtype, shape=shape, name=tensor.name, base_dir=tensor.base_dir)
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
    rows, weight, *numbers = (node.get_input(number) for number in range(node.get_input_size()))
    scale, *zeros = (ops.reshape(number, ops.constant([outer, -1, 1]), False) for number in numbers)
    dtype, middle = rows.get_element_type(), 1 << (bits - 1)
    zero = zeros[0] if zeros else ops.convert(ops.constant(np.full(1, middle), BLOCK_TYPES[bits][1]), dtype)
    blocks = ops.multiply(ops.subtract(ops.convert(weight, dtype), zero), scale)
    weights = ops.reshape(blocks, ops.constant([outer, inner]), False)
    outputs: list[ov.Output] = ops.matmul(rows, weights, False, True).outputs()
    return outputs
