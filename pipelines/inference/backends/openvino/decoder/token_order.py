"""Removes transposes around rotary embeddings and attention, between which a model's values are in another
order than OpenVINO's attention reads and writes them.

Braid's format has heads before tokens, [1, heads, tokens, size]; OpenVINO's attention reads rows of tokens,
[tokens, heads * size].  Each transpose is a copy and an operator to prepare when a step's size changes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import openvino as ov
from openvino import opset13 as ops

HEADS_LAST = [0, 2, 1, 3]
"""The permutation [1, heads, tokens, size] ↔ [1, tokens, heads, size]."""
OPERATORS = frozenset({"Add", "Concat", "Multiply", "Negative", "Split", "Subtract", "VariadicSplit"})
"""Operators of a rotary embedding; those that join or split do so along the last axis."""


def read_in_order(rows: ov.Node, angles: dict[str, ov.Output]) -> None:
    """Let `rows`, a Reshape to [tokens, heads * size] behind a transpose, read what is before that.

    A rotary embedding between two transposes gets the tokens as its first axis.  `angles`: the cosines and
    sines of tokens that were reshaped so, by name.  What is not known stays as it is.
    """
    transposed = rows.input_value(0).get_node()
    if not _moves_heads(transposed):
        return
    heads = transposed.input_value(0)
    if _moves_heads(heads.get_node()):
        rows.input(0).replace_source_output(_unshaped(heads.get_node().input_value(0)))
        return
    inside = _rotary(heads)
    if not inside:
        return
    for node in inside:
        for port in node.inputs():
            source = port.get_source_output()
            if _moves_heads(source.get_node()):
                _, count, _, size = source.get_partial_shape()
                lengths = [-1, count.get_length(), 1, size.get_length()]
                before = _unshaped(source.get_node().input_value(0))
                port.replace_source_output(ops.reshape(before, ops.constant(lengths), False).output(0))
            elif _is_angle(source):
                lengths = [-1, 1, 1, source.get_partial_shape()[3].get_length()]
                before = _unshaped(source)
                name = f"{before.get_node().get_friendly_name()}.{before.get_index()}"
                if name not in angles:
                    angles[name] = ops.reshape(before, ops.constant(lengths), False).output(0)
                port.replace_source_output(angles[name])
    rows.input(0).replace_source_output(heads)


def write_in_order(rows: ov.Output, heads: ov.Output) -> None:
    """Let those that read `heads` as [1, tokens, heads * size] read `rows`, which are [tokens, heads * size].

    `heads` are `rows` as [1, heads, tokens, size].
    """
    width = rows.get_partial_shape()[1]
    for transposed in [port.get_node() for port in heads.get_target_inputs()]:
        if not _moves_heads(transposed):
            continue
        for port in transposed.output(0).get_target_inputs():
            reader = port.get_node()
            if reader.get_type_name() != "Reshape":
                continue
            shape = reader.output(0).get_partial_shape()
            if shape.rank.get_length() == 3 and shape[0] == 1 and shape[2] == width:
                lengths = ops.constant([1, -1, width.get_length()])
                reader.output(0).replace(ops.reshape(rows, lengths, False).output(0))


def _moves_heads(node: ov.Node) -> bool:
    """Whether it swaps heads and tokens."""
    if node.get_type_name() != "Transpose":
        return False
    order = node.input_value(1).get_node()
    return bool(order.get_type_name() == "Constant" and order.data.tolist() == HEADS_LAST)


def _rotary(heads: ov.Output) -> list[ov.Node]:
    """The operators between a transpose and `heads`, which are read by another one alone; [] where there are
    others than those of a rotary embedding, or where anything else reads between them.

    Nor is one that turns a part of each head: OpenVINO computes it as one operator in its own order alone.
    """
    halves = heads.get_node()
    if halves.get_type_name() != "Concat" or any(
        value.get_node().get_type_name() != "Add" for value in halves.input_values()
    ):
        return []
    rotary_nodes: dict[str, ov.Node] = {}
    left = [halves]
    while left:
        node = left.pop()
        if node.get_friendly_name() in rotary_nodes:
            continue
        if node.get_type_name() not in OPERATORS or not _is_along_last(node):
            return []
        rotary_nodes[node.get_friendly_name()] = node
        for source in _values(node):
            above = source.get_node()
            if _moves_heads(above) or _is_angle(source) or above.get_type_name() == "Constant":
                continue
            left.append(above)
    inside = list(rotary_nodes.values())
    readers = [
        port.get_node() for node in inside for out in node.outputs() for port in out.get_target_inputs()
    ]
    outside = [reader for reader in readers if reader.get_friendly_name() not in rotary_nodes]
    return inside if len(outside) == 1 else []


def _values(node: ov.Node) -> Iterator[ov.Output]:
    """What a rotary embedding computes with: of a split without its axis and lengths."""
    count = 1 if "Split" in node.get_type_name() else node.get_input_size()
    return (node.input_value(number) for number in range(count))


def _is_along_last(node: ov.Node) -> bool:
    kind = node.get_type_name()
    if kind == "Concat":
        return node.get_attributes()["axis"] in (-1, 3)
    if "Split" in kind:
        axis = node.input_value(1).get_node()
        return axis.get_type_name() == "Constant" and int(axis.data) in (-1, 3)
    return all(_is_single(value) or value.get_partial_shape().rank == 4 for value in _values(node))


def _is_single(value: ov.Output) -> bool:
    return bool(value.get_partial_shape().is_static and np.prod(value.get_shape()) == 1)


def _is_angle(value: ov.Output) -> bool:
    """[1, 1, tokens, size], the same for all heads; not what becomes of the one head that a model has."""
    shape = value.get_partial_shape()
    if value.get_node().get_type_name() in OPERATORS or shape.rank != 4:
        return False
    return bool(shape[0] == 1 and shape[1] == 1 and shape[2].is_dynamic and shape[3].is_static)


def _unshaped(value: ov.Output) -> ov.Output:
    """What a Reshape reads, whose result is reshaped again."""
    while value.get_node().get_type_name() in ("Reshape", "Unsqueeze"):
        value = value.get_node().input_value(0)
    return value
