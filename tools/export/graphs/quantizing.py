"""Quantizes the weights of a graph to blocks of 4 or 8 bits for `com.microsoft::MatMulNBits`; embeddings to
float16.

Symmetric, rounded to nearest, one scale for a block of a column.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from pipelines.onnx_format.decoder_format import LOGITS
from tools.export.graphs.block_scales import Floats, Rounded, round_to_4_bits
from tools.export.graphs.parameters import parameter

TRANSPOSED = ".T"  # what the trace adds to the name of a weight that it stores as MatMul reads it
DOMAIN, OPERATOR = "com.microsoft", "MatMulNBits"
BITS = {"int8": 8, "int4": 4}
MORE_BITS, MORE_SHARE = 8, 0.05
"""The part of the weights that gets more than 4 bits: those that would lose most by 4."""
HEAD_BITS = 8  # of the weight that gives the logits, which suffers most from few bits
BLOCKS = {4: (32,), 8: (128, 64, 32)}
"""Bits → how many weights of a column may share a scale: of these the largest that divides the column, else
the smallest.  A scale takes as long to read as four weights of 8 bits, which do not need many."""
INT8_SUMS = 4  # accuracy_level: the engine may multiply in int8, as it does where that is fast
FLOAT16_MAX = 65504.0
PRODUCTS = ("MatMul", "Gemm")


def quantize(model: ir.Model, weights: str, squares: Mapping[str, Floats] | None = None) -> ir.Model:
    """Quantize the weight of every linear layer except routers of experts; `model` is changed.

    `weights`: a key of `BITS`.  `squares`: name of a weight → float32[inner], the mean square of each number
    that it is multiplied with; with them 4 bits are rounded for these numbers, and the weights that lose most
    have 8.
    """
    logits = next((output for output in model.graph.outputs if output.name == LOGITS), None)
    head = _linear_before(logits)  # hidden states have none
    routers = [_linear_before(node.inputs[0]) for node in model.graph if node.op_type == "TopK"]
    linears = [node for node in model.graph if _multiplies_weight(node) and node not in routers]
    bits = {node: HEAD_BITS if node is head else BITS[weights] for node in linears}
    if squares:
        lost = {node: _store(model.graph, node, 4, squares) for node in linears if bits[node] == 4}
        bits |= dict.fromkeys(_worst(lost), MORE_BITS)
    for node in list(model.graph):
        if node in bits:
            _quantize(model.graph, node, bits[node])
        elif node.op_type == "Gather" and _is_weight(node.inputs[0]):
            _halve(model.graph, node)
    remove_unused(model.graph)
    model.opset_imports[DOMAIN] = 1
    return model


def remove_unused(graph: ir.Graph) -> None:
    """Remove the weights that no node reads."""
    for name in [name for name, value in graph.initializers.items() if not value.uses()]:
        graph.initializers.pop(name)


def _worst(lost: Mapping[ir.Node, float]) -> Iterator[ir.Node]:
    """The linear layers that lose most, in all at most `MORE_SHARE` of the weights."""
    sizes = {node: math.prod(node.inputs[1].shape) for node in lost}
    left = MORE_SHARE * sum(sizes.values())
    for node in sorted(lost, key=lambda each: -lost[each]):
        if sizes[node] <= left:
            left -= sizes[node]
            yield node


def quantize_blocks(weight: np.ndarray, bits: int, squares: Floats | None = None) -> Rounded:
    """The blocks, packed uint8[outer, blocks, block·bits/8], and scales of a weight [inner, outer]."""
    inner, outer = weight.shape
    block = block_size(inner, bits)
    if bits == 4:
        return round_to_4_bits(weight.T, block, squares)
    from onnxruntime.capi import _pybind_state as ort  # its public module sets the root logger's level

    blocks = -(-inner // block)
    padded = np.zeros((blocks * block, outer), np.float32)  # the quantizer reads memory row by row
    padded[:inner] = weight
    packed = np.zeros((outer, blocks, block), np.uint8)
    scales = np.zeros((outer, blocks), np.float32)
    unused = np.zeros((outer, blocks), np.uint8)  # zero points, which symmetric blocks have not
    ort.quantize_matmul_8bits(packed, padded, scales, unused, block, outer, inner, True)
    return Rounded(packed, scales, 0.0)


def block_size(inner: int, bits: int) -> int:
    """The block size of a weight whose columns have `inner` numbers."""
    return next((size for size in BLOCKS[bits] if inner % size == 0), BLOCKS[bits][-1])


def _quantize(graph: ir.Graph, node: ir.Node, bits: int) -> None:
    """Replace a MatMul with a weight, or a Gemm, by MatMulNBits, with an Add for the Gemm's bias."""
    rows, weight, *bias = node.inputs
    _store(graph, node, bits, {})
    stored = [graph.initializers[name] for name in _names(weight, bits)]
    inner, outer = reversed(weight.shape) if _is_transposed(node) else weight.shape
    sizes = {"K": inner, "N": outer, "bits": bits, "block_size": block_size(inner, bits)}
    attributes: dict[str, Any] = sizes | {"accuracy_level": INT8_SUMS}
    linear = ir.node(OPERATOR, [rows, *stored], attributes, domain=DOMAIN, name=node.name)
    if bias and bias[0] is not None:
        graph.insert_before(node, linear)
        linear.outputs[0].type = node.outputs[0].type
        linear = ir.node("Add", [linear.outputs[0], bias[0]], name=f"{node.name}.bias")
    replace(graph, node, linear)


def _store(graph: ir.Graph, node: ir.Node, bits: int, squares: Mapping[str, Floats]) -> float:
    """Store blocks and scales of a weight, once for all linear layers that read it; return what they lose."""
    weight = node.inputs[1]
    blocks, scales = _names(weight, bits)
    if blocks in graph.initializers:
        return 0.0
    values = weight.const_value.numpy()
    met = squares.get(weight.name.removesuffix(TRANSPOSED))
    rounded = quantize_blocks(values.T if _is_transposed(node) else values, bits, met)
    parameter(graph, blocks, rounded.packed)
    parameter(graph, scales, rounded.scales.astype(values.dtype))
    return rounded.lost


def _names(weight: ir.Value, bits: int) -> tuple[str, str]:
    """The names of the weight's blocks and scales."""
    return f"{weight.name}.int{bits}", f"{weight.name}.scales{bits}"


def _is_transposed(node: ir.Node) -> bool:
    return bool(node.attributes.get_int("transB", 0))


def _halve(graph: ir.Graph, node: ir.Node) -> None:
    """Store a float32 embedding in float16, cast after the lookup."""
    weight = node.inputs[0]
    if weight.dtype != ir.DataType.FLOAT or np.abs(values := weight.const_value.numpy()).max() > FLOAT16_MAX:
        return
    stored = parameter(graph, f"{weight.name}.float16", values.astype(np.float16))
    gathered = ir.node("Gather", [stored, node.inputs[1]], dict(node.attributes), name=node.name)
    graph.insert_before(node, gathered)
    replace(
        graph, node, ir.node("Cast", gathered.outputs, {"to": ir.DataType.FLOAT}, name=f"{node.name}.float32")
    )


def replace(graph: ir.Graph, node: ir.Node, by: ir.Node) -> None:
    """Replace the output of `node` by the single output of `by`."""
    old, new = node.outputs[0], by.outputs[0]
    new.name, new.type, new.shape = old.name, old.type, old.shape
    ir.convenience.replace_nodes_and_values(graph, node, [node], [by], [old], [new])


def _multiplies_weight(node: ir.Node) -> bool:
    """Whether the node is a linear layer with a weight, with at most a bias."""
    if node.op_type not in PRODUCTS or not _is_weight(node.inputs[1]):
        return False
    read = node.attributes
    return (
        not read.get_int("transA", 0) and read.get_float("alpha", 1.0) == read.get_float("beta", 1.0) == 1.0
    )


def _is_weight(value: ir.Value | None) -> bool:
    return value is not None and value.is_initializer() and len(value.shape or ()) == 2


def _linear_before(value: ir.Value | None) -> ir.Node | None:
    """The linear layer that computes `value`."""
    node = value.producer() if value is not None else None
    while node is not None and node.op_type not in PRODUCTS:
        node = next((each.producer() for each in node.inputs if each is not None and each.producer()), None)
    return node
