"""The rewrites of an ONNX graph that exports of other tools need to reach Braid's format."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from pipelines.inference.contracts.device_errors import EXPORT_ADVICE, ModelError
from pipelines.onnx_format.decoder_format import (
    ATTENTION,
    ATTRIBUTES,
    CALIBRATION,
    DOMAIN,
    INPUT_IDS,
    IR_VERSION,
    LOGITS,
    LOGITS_INDICES,
    OPSET,
    POSITION_IDS,
    VERSION,
    AttentionLayer,
)

CONTRIB = "com.microsoft"
ROWWISE = frozenset({"Add", "Cast", "Div", "Identity", "Mul", "Tanh"})
"""Operators allowed between the head and the logits (bias, scale, cap): each computes a row on its own."""
HEADS = frozenset({("", "MatMul"), (CONTRIB, "MatMulNBits")})
"""Head operators that compute each row on its own, so that only the requested rows need to be computed."""
FIRST_OPSET = 13
"""The oldest operator set that is read: before it, axes of Squeeze and Unsqueeze were attributes."""

Attribute = int | float | str | list[int]


class NodeInserter:
    """Inserts new nodes before `place` in the order of the calls; at the end of the graph when it is None."""

    def __init__(self, graph: ir.Graph, place: ir.Node | None = None) -> None:
        self.graph, self.place = graph, place

    def op(
        self, op_type: str, *inputs: ir.Value | None, domain: str = "", **attributes: Attribute
    ) -> ir.Value:
        """Add a node with one output and return the output."""
        return self.node(op_type, inputs, domain, 1, attributes).outputs[0]

    def split(self, value: ir.Value, sizes: list[int]) -> list[ir.Value]:
        """Split the last axis into parts of these sizes."""
        parts = self.node("Split", [value, self.ints(*sizes)], "", len(sizes), {"axis": -1})
        return list(parts.outputs)

    def ints(self, *values: int) -> ir.Value:
        """A constant int64[len(values)]."""
        return self.constant(np.array(values, np.int64))

    def constant(self, array: np.ndarray) -> ir.Value:
        """The array as a constant."""
        tensor = ir.tensor(array)
        made = self.node("Constant", [], "", 1, {"value": tensor}).outputs[0]
        made.dtype, made.shape = tensor.dtype, ir.Shape(array.shape)
        return made

    def node(
        self,
        op_type: str,
        inputs: list[ir.Value | None] | tuple[ir.Value | None, ...],
        domain: str,
        num_outputs: int,
        attributes: Mapping[str, Attribute | ir.TensorProtocol],
    ) -> ir.Node:
        node = ir.node(op_type, inputs, attributes, domain=domain, num_outputs=num_outputs)
        if self.place is None:
            self.graph.append(node)
        else:
            self.graph.insert_before(self.place, node)
        for value in node.outputs:  # a prefix distinguishes the generated names from the export's
            value.name = f"braid/{value.name}"
        return node


def insert_attention(
    writer: NodeInserter,
    layer: AttentionLayer,
    query: ir.Value,
    key: ir.Value,
    value: ir.Value,
    dtype: ir.DataType,
    sinks: ir.Value | None = None,
) -> ir.Value:
    """Add the format's attention node; query and result are [1, num_heads, T, head_size], all of `dtype`."""
    names = (*ATTRIBUTES, *CALIBRATION)
    attributes = {name: attribute for name in names if (attribute := getattr(layer, name)) is not None}
    more = () if sinks is None else (None, sinks)
    attended = writer.op(ATTENTION, query, key, value, *more, domain=DOMAIN, **attributes)
    for tensor in (query, key, value, attended):
        heads = layer.num_kv_heads if tensor in (key, value) else layer.num_heads
        tensor.dtype, tensor.shape = dtype, ir.Shape([1, heads, "num_tokens", layer.head_size])
    return attended


def constant(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The tensor of a value that is the same in every run, perhaps on disk; None for any other value."""
    return None if value is None else ir.convenience.get_const_tensor(value)


def constant_number(value: ir.Value | None) -> float | None:
    """The number of a constant value with one element, else None."""
    tensor = constant(value)
    return None if tensor is None or tensor.size != 1 else float(tensor.numpy().reshape(()))


def attribute_number(node: ir.Node, name: str, default: float) -> float:
    """A numeric attribute of a node; `default` when it is absent."""
    found = node.attributes.get(name)
    return default if found is None else float(found.value)


def ensure_input(graph: ir.Graph, name: str, shape: list[str | int]) -> ir.Value:
    """The graph's input of that name, created as int64 when it is absent; its shape becomes `shape`."""
    found = next((each for each in graph.inputs if each.name == name), None)
    if found is None:
        found = ir.val(name, ir.DataType.INT64)
        graph.inputs.append(found)
    found.shape = ir.Shape(shape)
    return found


def gather_logit_rows(graph: ir.Graph, axis: int) -> None:
    """Make float32[num_logits, vocab] the only output, and compute no other logit rows.

    Rows are along `axis` of the export's own logits: 1 after a batch axis of one, or 0.  The hidden states
    are gathered before the head when only row-wise operators follow it; else the logits are gathered.  Raises
    `ModelError`.
    """
    logits = next((value for value in graph.outputs if value.name == LOGITS), None)
    if logits is None:
        outputs = ", ".join(str(value.name) for value in graph.outputs)
        raise ModelError(f"The export gives no {LOGITS} (it gives {outputs}). {EXPORT_ADVICE}")
    vocab = logits.shape[-1] if logits.shape is not None else "vocab"
    rows = ensure_input(graph, LOGITS_INDICES, ["num_logits"])
    gathers = bool(rows.consumers())  # the export does so itself
    rows.dtype = ir.DataType.INT64
    logits.name, logits.shape = f"{LOGITS}/rows", None
    graph.outputs.clear()
    after, last = NodeInserter(graph), logits
    if not gathers and (head := _head(logits)) is not None:
        before = NodeInserter(graph, head)
        head.replace_input_with(0, before.op("Gather", head.inputs[0], rows, axis=axis))
    elif not gathers:
        last = after.op("Gather", logits, rows, axis=axis)
    if axis:
        last = after.op("Squeeze", last, after.ints(0))
    last = after.op("Cast", last, to=int(ir.DataType.FLOAT))
    last.name, last.dtype, last.shape = LOGITS, ir.DataType.FLOAT, ir.Shape(["num_logits", vocab])
    graph.outputs.append(last)


def _head(logits: ir.Value) -> ir.Node | None:
    """The node that turns hidden states into logits, when only row-wise operators follow it."""
    node = logits.producer()
    while node is not None and node.domain == "" and node.op_type in ROWWISE:
        computed = [value for value in node.inputs if constant(value) is None]
        node = computed[0].producer() if len(computed) == 1 and computed[0] is not None else None
    if node is None or (node.domain, node.op_type) not in HEADS:
        return None
    return node if constant(node.inputs[0]) is None else None


def remove_unused_nodes(model: ir.Model) -> None:
    """Remove all nodes that no output depends on."""
    RemoveUnusedNodesPass()(model)


def restrict_inputs(graph: ir.Graph) -> None:
    """Leave only the format's inputs, in its order.  Raises `ModelError` when a node still reads another
    input.
    """
    inputs = {name: ensure_input(graph, name, shape) for name, shape in INPUT_SHAPES.items()}
    for value in graph.inputs:
        readers = value.consumers() if value.name not in inputs else []
        if readers:
            raise ModelError(
                f"{readers[0].op_type} {readers[0].name} reads {value.name} for something that is neither "
                f"attention nor a position, which Braid does not support. {EXPORT_ADVICE}"
            )
    graph.inputs[:] = inputs.values()


INPUT_SHAPES: dict[str, list[str | int]] = {
    INPUT_IDS: [1, "num_tokens"],
    POSITION_IDS: [1, "num_tokens"],
    LOGITS_INDICES: ["num_logits"],
}


# Operator sets


def upgrade_opset(model: ir.Model) -> None:
    """Declare the operator set of Braid's format, and adapt the operators whose definition has changed.

    From 13 to 23 two of them changed: Reduce* had axes as an attribute before 18, and Split had no
    num_outputs.  Raises `ModelError` for sets older than 13.
    """
    opsets = model.graph.opset_imports
    opset = opsets.get("", 0)
    if opset < FIRST_OPSET:
        raise ModelError(
            f"The export is of ONNX opset {opset}; Braid reads {FIRST_OPSET} and newer. {EXPORT_ADVICE}"
        )
    if opset < 18:
        for node in list(model.graph):
            _raise_to_18(model.graph, node)
    opsets[""], opsets[DOMAIN] = max(opset, OPSET), VERSION
    model.ir_version = max(model.ir_version, IR_VERSION)


def _raise_to_18(graph: ir.Graph, node: ir.Node) -> None:
    if node.domain != "":
        return
    if node.op_type.startswith("Reduce") and (axes := node.attributes.pop("axes", None)) is not None:
        values = axes.as_ints()
        node.resize_inputs(2)
        node.replace_input_with(1, NodeInserter(graph, node).ints(*values))
    if node.op_type == "Split" and len(node.inputs) == 1 and "num_outputs" not in node.attributes:
        node.attributes.add(ir.AttrInt64("num_outputs", len(node.outputs)))


def replace_by(graph: ir.Graph, node: ir.Node, result: ir.Value) -> None:
    """Let `result` stand for the only output of `node`, with its name, type and shape; remove the node."""
    old = node.outputs[0]
    result.type, result.shape = old.type, old.shape
    old.replace_all_uses_with(result, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    result.name = old.name
