"""A graph of one MatMulNBits with random weights."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

INNER, OUTER, BLOCK = 64, 40, 16


def block_product(bits, zeros=None):
    """rows float32[1, n, 64] → product [1, n, 40]; `zeros`: without zero points, "packed" ones or "float32"."""
    rng = np.random.default_rng(bits)
    blocks = INNER // BLOCK
    stored = {
        "weight": rng.integers(0, 256, (OUTER, blocks, BLOCK * bits // 8), np.uint8),
        "scales": rng.random((OUTER, blocks)).astype(np.float32) / 50,
    }
    if zeros == "packed":
        stored["zero_points"] = rng.integers(0, 256, (OUTER, blocks * bits // 8), np.uint8)
    if zeros == "float32":
        stored["zero_points"] = rng.uniform(-2, 1 << bits, (OUTER, blocks)).astype(np.float32)
    weights = [ir.val(name, const_value=ir.tensor(array, name=name)) for name, array in stored.items()]
    rows = ir.val("rows", ir.DataType.FLOAT, [1, "num_rows", INNER])
    sizes = {"K": INNER, "N": OUTER, "bits": bits, "block_size": BLOCK}
    node = ir.node("MatMulNBits", [rows, *weights], sizes, domain="com.microsoft")
    out = node.outputs[0]
    out.name, out.dtype, out.shape = "product", ir.DataType.FLOAT, ir.Shape([1, "num_rows", OUTER])
    opsets = {"": 23, "com.microsoft": 1, "braid": 1}
    graph = ir.Graph([rows], [out], nodes=[node], initializers=weights, opset_imports=opsets, name="block")
    return ir.Model(graph, ir_version=10)
