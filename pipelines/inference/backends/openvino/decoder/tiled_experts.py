"""Experts in OpenVINO's own files, as optimum-intel writes them: the rows of a step are tiled, and all
experts are one MatMul with three axes, which OpenVINO computes for those that were chosen where it knows the
whole pattern.
"""

from __future__ import annotations

import openvino as ov

GATHERED, MATMUL = "GatherMatmul", "MatMul"
UNPACKING = ("Convert", "Multiply", "Subtract", "Reshape")
"""Operators between codes and the weight that they stand for."""


def count_tiled(model: ov.Model) -> int:
    """How many MatMuls of a model have the weights of several experts."""
    return sum(node.get_type_name() == MATMUL and _has_experts(node) for node in model.get_ops())


def count_dense(compiled: ov.CompiledModel, num_tiled: int) -> int:
    """How many of them a compiled model computes for every expert and every token."""
    kinds = [node.get_rt_info()["layerType"].astype(str) for node in compiled.get_runtime_model().get_ops()]
    return max(0, num_tiled - kinds.count(GATHERED))


def _has_experts(matmul: ov.Node) -> bool:
    weight = matmul.input_value(1)
    shape = weight.get_partial_shape()
    if shape.is_dynamic or len(shape) != 3 or shape[0].get_length() == 1:
        return False
    node = weight.get_node()
    while node.get_type_name() in UNPACKING:
        node = node.input_value(0).get_node()
    return str(node.get_type_name()) == "Constant"
