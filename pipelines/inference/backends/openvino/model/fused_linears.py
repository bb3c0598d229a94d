"""Lets linear layers of Braid's kernels do what surrounds them: fewer nodes, whose results stay in the cache.

Linear layers of the same rows, as queries, keys and values, are one, which rounds the rows once and writes an
output for each of them.  A gate and what it is multiplied by write their product alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.model.graph_matching import scalar_of
from pipelines.inference.backends.openvino.model.operator_library import OperatorLibrary

BLOCK_LINEAR = "BlockLinear"
FILE_LINEAR = "FileLinear"
"""The kernels' operator for weights that a model's file has as BlockLinear takes them."""
GGUF_LINEAR = "GgufLinear"
"""The kernels' operator for a weight in a GGUF file, which is made when the model is read."""
OPERATORS = frozenset({BLOCK_LINEAR, FILE_LINEAR, GGUF_LINEAR})
JOINED = frozenset({BLOCK_LINEAR, FILE_LINEAR})
AND = " and "
"""What is between the names of linear layers that are computed together."""
MOST_JOINED = 8
"""Linear layers that are one.  Results of more, as of all experts of a mixture, would be in memory at
once.
"""
SILU, GELU_TANH = 1, 3
"""Values of the operators' attribute `gated`."""


def fuse_linears(model: ov.Model, library: OperatorLibrary) -> None:
    """Replace what the operators of `library` can do themselves; a joined one has all names of its layers."""
    _join_linears(model, library)
    for node in model.get_ordered_ops():
        if node.get_type_name() == "Multiply":
            _fuse_gate(node, library)
    for node in model.get_ordered_ops():
        if node.get_type_name() == "VariadicSplit":
            _fuse_split(node, library)


def with_attributes(node: ov.Node, rows: ov.Output, library: OperatorLibrary, **changed: object) -> ov.Node:
    """A linear layer that is `node`, of `rows` and with other attributes."""
    constants = [node.input_value(number) for number in range(1, node.get_input_size())]
    attributes = {**node.get_attributes(), **changed}
    operator = library.node(node.get_type_name(), [rows, *constants], attributes)
    operator.set_friendly_name(node.get_friendly_name())
    return operator


def _join_linears(model: ov.Model, library: OperatorLibrary) -> None:
    """Let linear layers of the same rows be one.  Nodes that were replaced end with this function: while they
    are there, their inputs have more readers than the model shows.
    """
    for linears in list(_linears_of_same_rows(model)):
        _join(linears, library)


def _linears_of_same_rows(model: ov.Model) -> Iterator[list[ov.Node]]:
    """Give what can be one: a gate before what it is multiplied by, and two to MOST_JOINED others."""
    alike: dict[tuple[object, ...], list[ov.Node]] = {}
    for node in model.get_ordered_ops():
        if node.get_type_name() in JOINED and not _is_split(node.output(0)):
            rows, attributes = node.input_value(0), node.get_attributes()
            kind = node.get_type_name(), node.get_input_size(), attributes["levels"], attributes.get("file")
            alike.setdefault((rows.get_node().get_name(), rows.get_index(), *kind), []).append(node)
    for linears in alike.values():
        others = {node.get_name(): node for node in linears}
        for node in linears:
            up = _multiplied_by(node.output(0))
            if up is not None and {node.get_name(), up} <= {*others}:
                yield [others.pop(node.get_name()), others.pop(up)]
        if 1 < len(others) <= MOST_JOINED:
            yield [*others.values()]


def _is_split(value: ov.Output) -> bool:
    """Whether a value is split in parts, which the linear layer alone can write."""
    return any(port.get_node().get_type_name() == "VariadicSplit" for port in value.get_target_inputs())


def _multiplied_by(gate: ov.Output) -> str | None:
    """The name of the node by which a value is multiplied once it is activated; None for what is no gate."""
    for port in gate.get_target_inputs():
        activated = port.get_node().output(0)
        activation = _gate(activated)
        if activation is not None and activation[1] == gate:
            (reader,) = activated.get_target_inputs()
            product = reader.get_node()
            if product.get_type_name() == "Multiply":
                return str(product.input_value(1 - reader.get_index()).get_node().get_name())
    return None


def _join(linears: list[ov.Node], library: OperatorLibrary) -> None:
    """Compute linear layers of the same rows by one operator, whose output is split."""
    constants = [node.input_value(number) for node in linears for number in range(1, node.get_input_size())]
    all_attributes = [node.get_attributes() for node in linears]
    asked = {"levels": all_attributes[0]["levels"], "weights": len(linears)}
    if linears[0].get_type_name() == FILE_LINEAR:
        places = [number for attributes in all_attributes for number in attributes["places"]]
        types = " ".join(attributes["types"] for attributes in all_attributes)
        asked = {**all_attributes[0], "places": places, "types": types}
    joined = library.node(linears[0].get_type_name(), [linears[0].input_value(0), *constants], asked)
    joined.set_friendly_name(AND.join(node.get_friendly_name() for node in linears))
    sizes = [node.get_output_partial_shape(0)[-1].get_length() for node in linears]
    split = ops.variadic_split(joined, ops.constant(np.int64(-1)), ops.constant(np.array(sizes, np.int64)))
    for node, output in zip(linears, split.outputs(), strict=True):
        node.output(0).replace(output)


def _fuse_gate(product: ov.Node, library: OperatorLibrary) -> None:
    """Let the linear layer that computes a gate and what it is multiplied by compute the product."""
    for number in (0, 1):
        gate = _gate(product.input_value(number))
        if gate is not None and _are_halves(gate[1], product.input_value(1 - number)):
            kind, half = gate
            whole = half.get_node().input_value(0)
            node = whole.get_node()
            if node.get_type_name() not in OPERATORS or node.get_attributes()["gated"]:
                return
            if not _has_one_reader(whole):
                return
            try:
                fused = with_attributes(node, node.input_value(0), library, gated=kind)
            except RuntimeError:  # sizes that the operator does not take so
                return
            product.output(0).replace(fused.output(0))
            return


def _gate(activated: ov.Output) -> tuple[int, ov.Output] | None:
    """The activation, and the value that only it reads."""
    node = activated.get_node()
    kind, value = node.get_type_name(), node.input_value(0) if node.get_input_size() else None
    if value is None or not _has_one_reader(activated):
        return None
    if kind == "Swish" and _is_silu(node) and _has_one_reader(value):
        return SILU, value
    if kind == "Gelu" and node.get_attributes().get("approximation_mode") == "TANH":  # older ones have none
        return (GELU_TANH, value) if _has_one_reader(value) else None
    if kind == "Multiply":
        for first, second in ((0, 1), (1, 0)):
            value, sigmoid = node.input_value(first), node.input_value(second).get_node()
            is_silu = sigmoid.get_type_name() == "Sigmoid" and sigmoid.input_value(0) == value
            if is_silu and len(value.get_target_inputs()) == 2 and _has_one_reader(sigmoid.output(0)):
                return SILU, value
    return None


def _is_silu(swish: ov.Node) -> bool:
    """Whether what it multiplies by before the sigmoid, if anything, is 1."""
    if swish.get_input_size() == 1:
        return True
    return scalar_of(swish.input_value(1)) == 1


def _are_halves(gate: ov.Output, other: ov.Output) -> bool:
    """Whether they are the first and the second half of one value in float32, and nothing else reads them."""
    split = gate.get_node()
    if split.get_type_name() != "VariadicSplit" or split != other.get_node() or not _has_one_reader(other):
        return False
    sizes = _sizes(split)
    in_order = (gate.get_index(), other.get_index()) == (0, 1)
    return in_order and len(sizes) == 2 and sizes[0] == sizes[1] and _is_float32(split.input_value(0))


def _fuse_split(split: ov.Node, library: OperatorLibrary) -> None:
    """Let a linear layer write what is split as outputs of its own."""
    whole = split.input_value(0)
    node, sizes = whole.get_node(), _sizes(split)
    if node.get_type_name() not in OPERATORS or not _has_one_reader(whole) or not sizes:
        return
    if node.get_output_size() != 1:
        return
    try:
        fused = with_attributes(node, node.input_value(0), library, parts=sizes)
    except RuntimeError:  # an output without numbers, or one that begins within a block of channels
        return
    for number in range(len(sizes)):
        split.output(number).replace(fused.output(number))


def _sizes(split: ov.Node) -> list[int]:
    """How many numbers each output has along the last axis; none where they are not known."""
    if split.get_output_partial_shape(0).rank.is_dynamic:
        return []
    last = len(split.get_output_partial_shape(0)) - 1
    axis = split.input_value(1).get_node()
    if axis.get_type_name() != "Constant" or int(axis.get_data().item()) not in (last, -1):
        return []
    axes = [port.get_partial_shape()[last] for port in split.outputs()]
    return [] if any(each.is_dynamic for each in axes) else [each.get_length() for each in axes]


def _has_one_reader(value: ov.Output) -> bool:
    return len(value.get_target_inputs()) == 1


def _is_float32(value: ov.Output) -> bool:
    return bool(value.get_element_type() == ov.Type.f32)
