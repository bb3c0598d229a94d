"""Lets a paged decoder read its input `position_ids` where its export counts positions itself.

OpenVINO's transformation knows `arange(past, past + new)`, as transformers 4 wrote it.  The
`arange(new) + past` of transformers 5 stays in the graph, and would give all tokens of a step one position.
What still counts after this is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import openvino as ov
from openvino import opset13 as ops

POSITIONS = "position_ids"
ROTATIONS = frozenset({"Cos", "Sin"})
"""Operators that turn positions into angles."""
SCALES = frozenset({"Convert", "Multiply"})
"""Operators between a table of angles and its readers."""
BETWEEN = frozenset({"Add", "Convert"})
"""Operators between the counted numbers and the node that gives them further axes."""

VALUES = {"Gather": (0,), "ScatterNDUpdate": (0, 2)}
"""Operators → which of their inputs have values; others say where these are."""


def give_positions(model: ov.Model) -> None:
    """Connect `position_ids` of a paged model wherever a rotation is computed from counted positions."""
    given = [one for one in model.get_parameters() if one.get_friendly_name() == POSITIONS]
    counted = [node for node in _above_rotations(model) if _counts(node)]
    if given and counted:
        for node in counted:
            _replace(node, given[0])
        model.validate_nodes_and_infer_types()


def counts_positions(model: ov.Model) -> bool:
    """Whether rotations of tokens are still computed from counted positions."""
    return any(_is_count(node) for node in _above_rotations(model))


def _above_rotations(model: ov.Model) -> Iterator[ov.Node]:
    """The nodes from which angles of tokens are computed, each once; without the order in which angles are
    gathered, as Cohere repeats them, or the places in which some are put, as Qwen3-VL mixes its axes.
    """
    rotations = (op for op in model.get_ops() if op.get_type_name() in ROTATIONS)
    open_nodes = [op for op in rotations if not _is_table(op)]
    seen: set[str] = set()
    while open_nodes:
        node = open_nodes.pop()
        read = node.input_values()
        for above in (read[place].get_node() for place in VALUES.get(node.get_type_name(), range(len(read)))):
            if above.get_friendly_name() not in seen:
                seen.add(above.get_friendly_name())
                open_nodes.append(above)
                yield above


def _is_table(rotation: ov.Node) -> bool:
    """Whether it has a row for each position, from which tokens gather theirs, as phimoe's has."""
    open_nodes = [rotation]
    while open_nodes:
        for target in open_nodes.pop().output(0).get_target_inputs():
            reader = target.get_node()
            if reader.get_type_name() == "Gather" and target.get_index() == 0:
                return True
            if reader.get_type_name() in SCALES:
                open_nodes.append(reader)
    return False


def _counts(node: ov.Node) -> bool:
    """Whether a node gives further axes to one row of counted positions."""
    if node.get_type_name() not in ("Unsqueeze", "Reshape"):
        return False
    value = node.input_value(0)
    if value.get_partial_shape().rank.get_length() != 1:
        return False
    while value.get_node().get_type_name() in BETWEEN:
        value = value.get_node().input_value(0)
    return _is_count(value.get_node())


def _is_count(node: ov.Node) -> bool:
    """Whether a node counts something that is known only when a step runs.

    Its shape may be static: the length of a sequence is the second axis of a paged model, which is 1.
    """
    bounds = [value.get_node().get_type_name() for value in node.input_values()]
    return node.get_type_name() == "Range" and any(name != "Constant" for name in bounds)


def _replace(counted: ov.Node, positions: ov.Node) -> None:
    """Put the positions in the place of `counted`: [tokens, 1], or [1, tokens, 1] for several sections."""
    given = ops.unsqueeze(positions, np.int64(1))
    if counted.get_output_partial_shape(0).rank.get_length() == 3:
        given = ops.unsqueeze(given, np.int64(0))
    given = ops.convert(given, counted.get_output_element_type(0).get_type_name())
    for target in list(counted.output(0).get_target_inputs()):
        target.replace_source_output(given.output(0))
