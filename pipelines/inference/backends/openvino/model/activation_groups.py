"""How many activations share a scale where linear layers of few bits round them to eight bits."""

from __future__ import annotations

from math import gcd

import openvino as ov

from pipelines.inference.backends.openvino.model.lora_linears import has_weight, linear_shape
from pipelines.inference.contracts.device_errors import ModelError

ROUNDING = "DYNAMIC_QUANTIZATION_GROUP_SIZE"
"""OpenVINO's property."""
COMPRESSED = ("u8", "i8", "u4", "i4")


def check_group(model: ov.Model, group: int, by_kernels: int = 0) -> None:
    """Raise `ModelError` where `group` does not divide every linear layer's activations and groups of
    weights.

    OpenVINO would leave the activations of such a linear layer as they are, which is slower.
    `by_kernels`: linear layers that Braid's own kernels compute; they are no longer in the model, and take
    any groups of weights.
    """
    sizes = [_weights_per_scale(node) for node in model.get_ops() if node.get_type_name() == "MatMul"]
    common = gcd(*(size for size in sizes if size))
    if not common and not by_kernels:
        raise ModelError("activation_group: this model has no weights of four or eight bits.")
    if common % group:
        raise ModelError(f"activation_group: {group} does not divide the {common} weights of a scale.")


def _weights_per_scale(node: ov.Node) -> int:
    """How many weights share a scale in an output's sum; 0 for linear layers without compressed weights."""
    if not has_weight(node):
        return 0
    weight = node.input_value(1).get_node()
    while weight.get_input_size():
        weight = weight.input_value(0).get_node()
    if weight.get_element_type().to_string() not in COMPRESSED:
        return 0
    shape = list(weight.get_output_shape(0))
    return linear_shape(node).size_in if len(shape) == 2 else shape[-1]
