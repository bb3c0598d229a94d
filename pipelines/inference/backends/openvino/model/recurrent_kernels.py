"""Lets Braid's own kernels compute recurrent layers, in place of OpenVINO's paged operators.

Inputs, states and the inputs of a step are those of OpenVINO's operators, in their order, so a node takes the
place of another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import openvino as ov
from openvino import opset13 as ops

from pipelines.inference.backends.openvino.model.block_linears import ComputedRecurrences
from pipelines.inference.backends.openvino.model.float_sums import use_float32
from pipelines.inference.backends.openvino.model.operator_library import OperatorLibrary


class _Kind(NamedTuple):
    """`operator`: the kernels' name of a layer; the numbers of its inputs of tokens, and of its states."""

    operator: str
    tokens: tuple[int, ...]
    states: int


KINDS = {
    "PagedCausalConv1D": _Kind("ShortConv", (0,), 1),
    "PagedGatedDeltaNet": _Kind("GatedDeltaNet", (0, 1, 2, 4, 5), 3),
    "PagedSelectiveSSM": _Kind("Mamba2", (1, 2, 3, 4), 5),
}
"""OpenVINO's type of a node → that of the kernels."""
NORMS_KEYS, KEY_EPSILONS = "use_qk_l2norm", ("q_l2_norm_eps", "k_l2_norm_eps")
"""Attributes of a delta net, which other versions of OpenVINO call otherwise.  The kernels have one epsilon,
and always norm queries and keys.
"""
LEAST_ROWS = 8
"""Rows of a head's state from which on the kernels are used, which compute 16 rows at once."""


def use_recurrent_kernels(model: ov.Model, library: OperatorLibrary | None) -> ComputedRecurrences:
    """Replace the recurrent layers of a paged model; without a library they are counted."""
    nodes = [node for node in model.get_ops() if node.get_type_name() in KINDS]
    if library is None:
        return ComputedRecurrences(count=len(nodes))
    if sum(map(_reads_floats, nodes)):
        model.validate_nodes_and_infer_types()
    by_kernels = sum(_replace(node, library) for node in nodes)
    if by_kernels:
        model.validate_nodes_and_infer_types()
    return ComputedRecurrences(by_kernels, len(nodes), library.title)


def _replace(node: ov.Node, library: OperatorLibrary) -> bool:
    """Whether the kernels compute such a layer: now they do."""
    kind = KINDS[node.get_type_name()]
    attributes = _attributes(node)
    if attributes is None:
        return False
    inputs = list(node.input_values())
    for number, value in enumerate(inputs):
        if number in kind.tokens or (number != kind.states and _is_narrow(value)):
            inputs[number] = ops.convert(value, "f32").output(0)
    operator = library.node(kind.operator, inputs, attributes)
    before = [inputs[number].get_node() for number in (*kind.tokens, kind.states)]
    use_float32([operator, *before], rounds=False)
    operator.set_friendly_name(node.get_friendly_name())
    node.output(0).replace(ops.convert(operator, node.output(0).get_element_type()).output(0))
    return True


def _is_narrow(value: ov.Output) -> bool:
    """Whether a value has floats of another type than the kernels read, as the constants of some IRs have."""
    element = value.get_element_type()
    return bool(element.is_real() and element != ov.Type.f32)


def _attributes(node: ov.Node) -> dict[str, Any] | None:
    """The attributes of the kernels' node; None for a layer that is left to OpenVINO."""
    operator, _, states = KINDS[node.get_type_name()]
    if operator == "ShortConv":
        return {}
    if node.get_input_partial_shape(states)[2].get_length() < LEAST_ROWS:
        return None
    if operator == "Mamba2":
        return {}
    known = node.get_attributes()
    epsilons = {known.get(name) for name in KEY_EPSILONS}
    return {"epsilon": epsilons.pop()} if known.get(NORMS_KEYS) and len(epsilons) == 1 else None


def _reads_floats(node: ov.Node) -> bool:
    """Let a node read its states as float32; returns whether an input of the model was changed for it.

    Such an input gets two axes, and a Reshape behind it: one that an operator reads itself is narrowed where
    the device computes in half precision.
    """
    states = node.input(KINDS[node.get_type_name()].states)
    parameter = states.get_source_output().get_node()
    if parameter.get_type_name() != "Parameter" or _attributes(node) is None:
        return False
    shape = [axis.get_length() for axis in list(parameter.get_partial_shape())[1:]]
    parameter.set_element_type(ov.Type.f32)
    parameter.set_partial_shape(ov.PartialShape([-1, int(np.prod(shape))]))
    states.replace_source_output(ops.reshape(parameter, ops.constant([-1, *shape]), False).output(0))
    return True
