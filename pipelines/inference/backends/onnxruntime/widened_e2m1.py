"""Lets ONNX Runtime multiply weights of E2M1 (MXFP4), for which it has no linear layer of its own.

Twice such a number is an integer from -12 to 12, so the weights become codes of eight bits in memory.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from pipelines.inference.backends.onnx.expert_linears import E2M1_LINEAR
from pipelines.inference.backends.onnx.graph_rewrites import CONTRIB, NodeInserter
from pipelines.onnx_format.decoder_format import DOMAIN

POSITIVE = (0, 1, 2, 3, 4, 6, 8, 12)
"""Twice the number that a code of three bits stands for; the fourth bit is the sign."""
CODES = np.array([*POSITIVE, *(-number for number in POSITIVE)], np.int16).astype(np.uint8) + np.uint8(128)


def widen_e2m1(graph: ir.Graph) -> None:
    """Replace every E2M1Linear of `graph` by a MatMulNBits of eight bits; reads the weights."""
    for node in [node for node in graph if (node.domain, node.op_type) == (DOMAIN, E2M1_LINEAR)]:
        rows, codes, scales = node.inputs
        assert codes is not None
        assert codes.const_value is not None
        name = f"{codes.name}.int8"
        if name not in graph.initializers:
            widened = _widened(codes.const_value.numpy())
            tensor = ir.tensor(widened, name=name)
            graph.register_initializer(ir.val(name, tensor.dtype, widened.shape, const_value=tensor))
        writer = NodeInserter(graph, node)
        half = writer.op("Mul", scales, writer.constant(np.array(0.5, np.float32)))
        attributes = {key: attribute.value for key, attribute in node.attributes.items()} | {"bits": 8}
        operands = [rows, graph.initializers[name], half]
        result = writer.node("MatMulNBits", operands, CONTRIB, 1, attributes).outputs[0]
        node.outputs[0].replace_all_uses_with(result)
        graph.remove(node, safe=True)
        if not codes.uses():
            graph.initializers.pop(codes.name or "")


def _widened(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    pairs = np.stack([codes & 15, codes >> 4], axis=-1)
    return CODES[pairs].reshape(*codes.shape[:-1], -1)
