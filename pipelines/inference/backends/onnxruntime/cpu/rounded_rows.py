"""Lets linear layers of int8 sums read what they would round in two parts, so that nothing is lost that
counts.

ONNX Runtime rounds the rows of a MatMulNBits to eight bits, with a scale for every block, or else unpacks
the whole weight at each call, which takes ten times as long.  A linear layer with what a row is rounded to,
and one with what is left of it, are together as good as one with 15 bits.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pipelines.inference.backends.onnx.graph_rewrites import CONTRIB, NodeInserter, replace_by

ACCURACY, INT8_SUMS = "accuracy_level", 4
"""Attribute of MatMulNBits, and its value where an engine may round the rows."""
LARGEST = 127.0
LEAST = np.finfo(np.float32).tiny
"""A scale of blocks of zeros."""


def read_in_two_parts(graph: ir.Graph) -> None:
    """Rewrite every MatMulNBits of `graph` that rounds its rows, which are float32."""
    parts: dict[tuple[ir.Value, int], tuple[ir.Value, ir.Value]] = {}
    for node in [node for node in graph if rounds(node)]:
        rows, block = node.inputs[0], node.attributes["block_size"].as_int()
        assert rows is not None
        if node.attributes["K"].as_int() % block:
            continue
        writer = NodeInserter(graph, node)
        if (rows, block) not in parts:
            parts[rows, block] = _split(writer, rows, node.attributes["K"].as_int() // block, block)
        attributes = {name: attribute.value for name, attribute in node.attributes.items()}
        near, rest = (
            writer.node(node.op_type, [part, *node.inputs[1:]], CONTRIB, 1, attributes).outputs[0]
            for part in parts[rows, block]
        )
        replace_by(graph, node, writer.op("Add", near, rest))


def rounds(node: ir.Node) -> bool:
    """Whether a node is a MatMulNBits that may round its rows."""
    level = node.attributes.get(ACCURACY)
    is_one = (node.domain, node.op_type) == (CONTRIB, "MatMulNBits")
    return is_one and level is not None and level.as_int() == INT8_SUMS


def _split(writer: NodeInserter, rows: ir.Value, count: int, block: int) -> tuple[ir.Value, ir.Value]:
    """What ONNX Runtime rounds the rows to, and what is left."""
    op = writer.op
    blocks = op("Reshape", rows, writer.ints(-1, count, block))
    largest = op("ReduceMax", op("Abs", blocks), writer.ints(2), keepdims=1)
    scale = op("Div", largest, writer.constant(np.array(LARGEST, np.float32)))
    scale = op("Max", scale, writer.constant(np.array(LEAST, np.float32)))
    near = op("Mul", op("Round", op("Div", blocks, scale)), scale)
    near = op("Reshape", near, op("Shape", rows), allowzero=1)  # of steps without a row, too
    return near, op("Sub", rows, near)
