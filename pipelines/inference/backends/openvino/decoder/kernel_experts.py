"""Lets Braid's own kernels compute a layer's routed experts, as one node of OpenVINO's graph.

The node reads the weights of all experts where the model's file is mapped, and packs an expert when it is
first chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import openvino as ov
from openvino import opset13 as ops

from pipelines.inference.backends.onnx.experts import Experts, find_experts, shape_of
from pipelines.inference.backends.onnx.graph_rewrites import NodeInserter, replace_by
from pipelines.inference.backends.openvino.decoder.onnx_weights import TYPES
from pipelines.inference.backends.openvino.model.experts_operator import LARGEST, OPERATOR, ROUTED
from pipelines.inference.backends.openvino.model.operator_library import LinearKernels
from pipelines.onnx_format.decoder_format import DOMAIN
from pipelines.onnx_format.experts_format import ACTIVATIONS, GGUF_EXPERTS, INPUTS, NETWORK, TABLES

KERNEL_EXPERTS = "KernelExperts"
"""A node of experts in which inputs that are absent are scalars; it exists during the conversion only."""


class KernelExperts:
    """The layers of a graph that the kernels compute, and how OpenVINO's conversion makes their nodes."""

    def __init__(self, kernels: LinearKernels) -> None:
        self._kernels = kernels
        self._attributes: dict[int, Mapping[str, Any]] = {}

    def use(self, graph: ir.Graph) -> int:
        """Prepare the nodes of experts whose weights the kernels can compute; returns how many those are, and
        those whose weights are in a GGUF file.
        """
        for experts in find_experts(graph):
            attributes = _attributes(experts, self._kernels.levels)
            if self._has_format(experts, attributes):
                self._attributes[experts.layer] = attributes
                _write_absent(graph, experts)
        in_file = sum((node.domain, node.op_type) == (DOMAIN, GGUF_EXPERTS) for node in graph)
        return len(self._attributes) + in_file

    def convert(self, node: Any) -> list[ov.Output]:
        """OpenVINO's node for KERNEL_EXPERTS."""
        inputs = [node.get_input(number) for number in range(node.get_input_size())]
        outputs: list[ov.Output] = self._node(inputs, self._attributes[node.get_attribute("layer")]).outputs()
        return outputs

    def _has_format(self, experts: Experts, attributes: Mapping[str, Any]) -> bool:
        routed = [
            ops.parameter([1, -1, experts.width], np.float32),
            ops.parameter([1, -1, 1], np.int64),
            ops.parameter([1, -1, 1], np.float32),
        ]
        constants = [_parameter(value) for value in _operands(experts)]
        try:
            self._node([node.output(0) for node in (*routed, *constants)], attributes)
        except (RuntimeError, KeyError):
            return False
        return True

    def _node(self, inputs: Sequence[ov.Output], attributes: Mapping[str, Any]) -> ov.Node:
        return self._kernels.library.node(OPERATOR, inputs, attributes)


def _operands(experts: Experts) -> list[ir.Value | None]:
    """The inputs that are constants; None where they are absent."""
    given = list(experts.node.inputs[ROUTED:])
    return [*given, *[None] * (len(INPUTS) - ROUTED - len(given))]


def _parameter(value: ir.Value | None) -> ov.Node:
    """A parameter of the type and shape of a constant.  Raises KeyError for a type that OpenVINO lacks."""
    if value is None or value.dtype is None:
        return ops.parameter([], np.float32)
    return ov.op.Parameter(TYPES[value.dtype], ov.PartialShape(list(shape_of(value))))


def _attributes(experts: Experts, levels: int) -> dict[str, Any]:
    weights = {"up": experts.up, "down": experts.down, "gate": experts.gate}
    parts = [weights[name] for name in NETWORK]
    return {
        "levels": levels,
        "activation": ACTIVATIONS.index(experts.activation),
        "alpha": experts.alpha,
        "limit": min(experts.limit, LARGEST),
        "table": TABLES.index(experts.node.attributes["table"].value),
        "bits": [0 if weight is None else weight.bits for weight in parts],
        "blocks": [0 if weight is None else weight.block for weight in parts],
    }


def _write_absent(graph: ir.Graph, experts: Experts) -> None:
    """Replace a node of experts by one with all inputs, of which those that are absent are scalars."""
    writer = NodeInserter(graph, experts.node)
    absent = writer.constant(np.zeros((), np.float32))
    operands = [absent if value is None else value for value in _operands(experts)]
    routed = [experts.hidden_states, experts.chosen, experts.weights]
    mixed = writer.op(KERNEL_EXPERTS, *routed, *operands, domain=DOMAIN, layer=experts.layer)
    replace_by(graph, experts.node, mixed)
