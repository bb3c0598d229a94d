"""Rewrites linear layers with float zero points, with which engines compute slowly.

ONNX Runtime unpacks such a weight at every call, and OpenVINO does not use int8 sums for it.
(code - zero) · scale = (code - middle) · scale + (middle - zero) · scale: the second summand is the same for
a whole block, so it is multiplied with the sum of the row's numbers that meet the block.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from pipelines.inference.backends.onnx.graph_rewrites import CONTRIB, NodeInserter

ZERO_POINTS = 3
"""The input's place among those of MatMulNBits."""


def multiply_block_sums(graph: ir.Graph, least_weights: int = 0, but: Sequence[ir.Node] = ()) -> None:
    """Rewrite every MatMulNBits of `graph` with float zero points, whose rows are [1, tokens, K], and with
    `least_weights` or more, but these.

    Weights stay in their files; what depends on them alone is computed once, when the model is opened.
    """
    sums: dict[tuple[ir.Value, int], ir.Value] = {}
    for node in [node for node in graph if _has_float_zeros(node) and node not in but]:
        sizes = {name: node.attributes[name].as_int() for name in ("K", "N", "bits", "block_size")}
        if sizes["K"] * sizes["N"] < least_weights:
            continue
        rows, codes, scales, zeros = node.inputs[: ZERO_POINTS + 1]
        assert rows is not None
        writer = NodeInserter(graph, node)
        block, count = sizes["block_size"], sizes["K"] // sizes["block_size"]
        key = (rows, block)
        if key not in sums:
            split = writer.op("Reshape", rows, writer.ints(1, -1, count, block))
            sums[key] = writer.op("ReduceSum", split, writer.ints(3), keepdims=0)
        shape = writer.ints(sizes["N"], count)
        middle = writer.constant(np.array(1 << (sizes["bits"] - 1), np.float32))
        scale, zero = (writer.op("Reshape", value, shape) for value in (scales, zeros))
        offsets = writer.op("Transpose", writer.op("Mul", writer.op("Sub", middle, zero), scale), perm=[1, 0])
        attributes = {name: attribute.value for name, attribute in node.attributes.items()}
        plain = writer.node(node.op_type, [rows, codes, scales], node.domain, 1, attributes).outputs[0]
        _replace(graph, node, writer.op("Add", plain, writer.op("MatMul", sums[key], offsets)))


def _replace(graph: ir.Graph, node: ir.Node, result: ir.Value) -> None:
    old = node.outputs[0]
    result.type, result.shape = old.type, old.shape
    old.replace_all_uses_with(result)
    graph.remove(node, safe=True)


def _has_float_zeros(node: ir.Node) -> bool:
    if (node.domain, node.op_type) != (CONTRIB, "MatMulNBits") or len(node.inputs) <= ZERO_POINTS:
        return False
    zeros = node.inputs[ZERO_POINTS]
    return zeros is not None and zeros.dtype == ir.DataType.FLOAT
