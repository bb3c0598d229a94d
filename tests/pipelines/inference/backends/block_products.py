"""A graph of one MatMulNBits with random weights, and what it computes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

INNER, OUTER, BLOCK = 64, 40, 16


def block_product(bits, zeros=None, inner=INNER, block=BLOCK):
    """rows float32[1, n, inner] → product [1, n, 40], and its weight float32[40, inner].

    `zeros`: without zero points, "packed" ones or "float32".
    """
    rng = np.random.default_rng(bits)
    limit = 1 << bits
    blocks = inner // block
    codes = rng.integers(0, limit, (OUTER, blocks, block), np.uint8)
    scales = rng.random((OUTER, blocks)).astype(np.float32) / 50
    stored = {"weight": _packed(codes, bits), "scales": scales}
    points = np.full((OUTER, blocks), limit // 2)
    if zeros == "packed":
        points = rng.integers(0, limit, (OUTER, blocks), np.uint8)
        room = blocks % 2 if bits == 4 else 0
        stored["zero_points"] = _packed(np.pad(points, ((0, 0), (0, room))), bits)
    if zeros == "float32":
        points = stored["zero_points"] = rng.uniform(-2, limit, (OUTER, blocks)).astype(np.float32)
    meant = (codes.astype(np.float32) - points[..., None]) * scales[..., None]
    sizes = {"K": inner, "N": OUTER, "bits": bits, "block_size": block}
    return _graph(sizes, stored), meant.reshape(OUTER, inner).astype(np.float32)


def _packed(codes, bits):
    return codes if bits == 8 else codes[..., 0::2] | codes[..., 1::2] << 4


def _graph(sizes, stored):
    weights = [ir.val(name, const_value=ir.tensor(array, name=name)) for name, array in stored.items()]
    rows = ir.val("rows", ir.DataType.FLOAT, [1, "num_rows", sizes["K"]])
    node = ir.node("MatMulNBits", [rows, *weights], sizes, domain="com.microsoft")
    last = ir.node("Identity", node.outputs)
    out = last.outputs[0]
    out.name, out.dtype, out.shape = "product", ir.DataType.FLOAT, ir.Shape([1, "num_rows", OUTER])
    opsets = {"": 23, "com.microsoft": 1, "braid": 1}
    nodes = [node, last]
    graph = ir.Graph([rows], [out], nodes=nodes, initializers=weights, opset_imports=opsets, name="block")
    return ir.Model(graph, ir_version=10)
