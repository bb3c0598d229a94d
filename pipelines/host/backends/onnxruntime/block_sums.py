"""Rewrites products with float zero points, for which ONNX Runtime unpacks the whole weight at every call.

(code - zero) · scale = (code - middle) · scale + (middle - zero) · scale: the second summand is the same for
a whole block, so it is multiplied with the sum of the row's numbers that meet the block.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from pipelines.host.backends.onnxruntime.graph_writer import GraphWriter

ZERO_POINTS = 3
"""Its place among the inputs of MatMulNBits."""


def multiply_block_sums(graph: ir.Graph, writer: GraphWriter) -> None:
    """Rewrite every MatMulNBits of `graph` with float zero points, whose rows are [1, tokens, K].

    Weights stay in their files; what depends on them alone is computed once, when the session is opened.
    """
    sums: dict[tuple[ir.Value, int], ir.Value] = {}
    for node in [node for node in graph if _has_float_zeros(node)]:
        rows, codes, scales, zeros = node.inputs[: ZERO_POINTS + 1]
        assert rows is not None
        sizes = {name: node.attributes[name].as_int() for name in ("K", "N", "bits", "block_size")}
        block, count = sizes["block_size"], sizes["K"] // sizes["block_size"]
        key = (rows, block)
        if key not in sums:
            split = writer.op("Reshape", rows, writer.ints(1, -1, count, block))
            sums[key] = writer.op("ReduceSum", split, writer.ints(3), keepdims=0)
        shape = writer.ints(sizes["N"], count)
        middle = writer.constant(f"middle.{sizes['bits']}", np.array(1 << (sizes["bits"] - 1), np.float32))
        scale, zero = (writer.op("Reshape", value, shape) for value in (scales, zeros))
        offsets = writer.op("Transpose", writer.op("Mul", writer.op("Sub", middle, zero), scale), perm=[1, 0])
        plain = ir.node(node.op_type, [rows, codes, scales], dict(node.attributes), domain=node.domain)
        product = writer.add(plain)
        writer.replace(node, writer.op("Add", product, writer.op("MatMul", sums[key], offsets)))


def _has_float_zeros(node: ir.Node) -> bool:
    if (node.domain, node.op_type) != ("com.microsoft", "MatMulNBits") or len(node.inputs) <= ZERO_POINTS:
        return False
    zeros = node.inputs[ZERO_POINTS]
    return zeros is not None and zeros.dtype == ir.DataType.FLOAT
