"""Lets Braid's own CPU kernels compute the linear layers that ONNX Runtime would compute in int8.

Their operator BlockLinear takes what MatMulNBits takes.  With two levels it reads each activation as a whole
number of 16 bits, with a scale for 32 of them: as exact as the two parts of `rounded_rows.py`, in one node.
"""

from __future__ import annotations

import onnx_ir as ir

from pipelines.inference.backends.onnx.graph_rewrites import replace_by
from pipelines.inference.backends.onnxruntime.cpu.rounded_rows import rounds

OPERATOR, DOMAIN, VERSION = "BlockLinear", "braid", 1
LEVELS = 2
SIZES = ("K", "N", "bits", "block_size")
BITS, BLOCKS = (4, 8), (16, 32, 64, 128)
CODES, SCALES, ZEROS, REORDERED = 1, 2, 3, 4
"""Places of inputs of MatMulNBits; those from REORDERED on BlockLinear does not have."""


def use_kernels(graph: ir.Graph) -> int:
    """Replace every MatMulNBits of `graph` that rounds its rows and that the kernels can compute.

    Returns how many were replaced.
    """
    nodes = [node for node in graph if rounds(node) and _fits(node)]
    for node in nodes:
        attributes = {name: node.attributes[name].as_int() for name in SIZES} | {"levels": LEVELS}
        linear = ir.node(OPERATOR, node.inputs[:REORDERED], attributes, domain=DOMAIN, name=node.name)
        graph.insert_before(node, linear)
        replace_by(graph, node, linear.outputs[0])
    if nodes:
        graph.opset_imports[DOMAIN] = VERSION
    return len(nodes)


def _fits(node: ir.Node) -> bool:
    """Whether the kernels have the format of a weight, whose parts are all initializers."""
    inner, _, bits, block = (node.attributes[name].as_int() for name in SIZES)
    inputs = [*node.inputs, *[None] * (REORDERED - len(node.inputs))]
    zeros, scales = inputs[ZEROS], inputs[SCALES]
    if bits not in BITS or block not in BLOCKS or inner % block or any(inputs[REORDERED:]):
        return False
    if scales is None or scales.dtype != ir.DataType.FLOAT:
        return False
    has_whole_bytes = zeros is None or zeros.dtype == ir.DataType.FLOAT or inner // block * bits % 8 == 0
    return has_whole_bytes and all(
        value is None or value.is_initializer() for value in inputs[CODES:REORDERED]
    )
