"""Lets a decoder in Braid's ONNX format give which routed experts its tokens choose."""

from __future__ import annotations

import onnx_ir as ir

from pipelines.inference.backends.onnx.expert_linears import num_used
from pipelines.inference.backends.onnx.experts import read_experts
from pipelines.inference.backends.onnx.graph_rewrites import NodeInserter
from pipelines.inference.contracts.device_errors import ModelError
from pipelines.inference.contracts.routed_experts import RoutedShape
from pipelines.onnx_format.decoder_format import DOMAIN
from pipelines.onnx_format.experts_format import CHOSEN, EXPERTS, GGUF_EXPERTS

ROUTED_EXPERTS = "routed_experts"
"""The output."""


def add_routed_output(graph: ir.Graph) -> RoutedShape:
    """Add the output `routed_experts`, int32[num_tokens, layers, used], behind the others.

    Raises `ModelError` for a decoder without routed experts, or with other numbers of them in some layers.
    """
    nodes = [node for node in graph if node.domain == DOMAIN and node.op_type in (EXPERTS, GGUF_EXPERTS)]
    chosen = [value for node in nodes if (value := node.inputs[CHOSEN]) is not None]
    counts, used = {_count(node) for node in nodes}, {num_used(value) for value in chosen}
    if not nodes:
        raise ModelError("routed_experts: this model has no routed experts; remove the line.")
    if len(counts) > 1 or len(used) > 1 or None in used:
        raise ModelError("routed_experts: layers of this model differ in their experts; remove the line.")
    shape = RoutedShape(len(nodes), counts.pop(), used.pop() or 0)
    writer = NodeInserter(graph)
    layers = [writer.op("Reshape", value, writer.ints(-1, 1, shape.used)) for value in chosen]
    output = writer.op("Cast", writer.op("Concat", *layers, axis=1), to=int(ir.DataType.INT32))
    output.name, output.dtype = ROUTED_EXPERTS, ir.DataType.INT32
    output.shape = ir.Shape(["num_tokens", shape.layers, shape.used])
    graph.outputs.append(output)
    return shape


def _count(node: ir.Node) -> int:
    """How many experts a layer has."""
    if node.op_type == EXPERTS:
        return read_experts(node).count
    return int(node.attributes["experts"].as_int())
