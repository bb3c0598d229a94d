"""The linear layer that gives the logits of a decoder in Braid's ONNX form, computed in float32.

The rest of a decoder may compute in half precision or with int8 matrix multiplications.  In those a logit
above 16 is a multiple of 1/64, in bfloat16 of 1/8, and likely tokens lie closer together than that.
"""

from __future__ import annotations

import onnx_ir as ir

from pipelines.adapters.linear_names import HEAD
from pipelines.inference.backends.onnx.graph_rewrites import CONTRIB, ROWWISE, NodeInserter, constant
from pipelines.inference.backends.onnx.named_linears import linear_of
from pipelines.onnx_format.decoder_format import LOGITS

RESHAPES = frozenset({"Reshape", "Squeeze", "Unsqueeze"})
F32, HALVES = ir.DataType.FLOAT, (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def nodes_from_head(graph: ir.Graph) -> list[ir.Node]:
    """The linear layer that gives the logits and the nodes behind it, each of which computes a row on its
    own; none where something else gives them.
    """
    value = next((output for output in graph.outputs if output.name == LOGITS), None)
    nodes: list[ir.Node] = []
    while value is not None and (node := value.producer()) is not None:
        nodes.insert(0, node)
        if linear_of(node, HEAD) is not None:
            return nodes
        if node.domain != "" or node.op_type not in ROWWISE | RESHAPES:
            return []
        computed = node.inputs[:1] if node.op_type in RESHAPES else node.inputs
        (value, *others) = [value_in for value_in in computed if constant(value_in) is None] or [None]
        if others:
            return []
    return []


def compute_head_in_float32(graph: ir.Graph) -> None:
    """Let the head multiply and add in float32, with the weights that it has, and all behind it."""
    nodes = nodes_from_head(graph)
    if not nodes:
        return
    linear = linear_of(nodes[0], HEAD)
    if linear is not None and linear.dtype in HALVES:
        for node in nodes:
            _widen(graph, node)


def _widen(graph: ir.Graph, node: ir.Node) -> None:
    """Cast the floats that the node reads, but those that a widened node has made."""
    writer = NodeInserter(graph, node)
    for place in _places_of_floats(node):
        value = node.inputs[place]
        if value is not None and value.dtype != F32:
            wide = writer.op("Cast", value, to=int(F32))
            wide.dtype = F32
            node.replace_input_with(place, wide)
    if node.op_type == "Cast":
        node.attributes.add(ir.AttrInt64("to", int(F32)))
    for out in node.outputs:
        out.dtype = F32


def _places_of_floats(node: ir.Node) -> list[int]:
    places = range(len(node.inputs))
    if (node.domain, node.op_type) == (CONTRIB, "MatMulNBits"):
        return [place for place in places if place == 0 or _is_half(node.inputs[place])]
    return [0] if node.op_type in RESHAPES else list(places)


def _is_half(value: ir.Value | None) -> bool:
    return value is not None and value.dtype in HALVES
