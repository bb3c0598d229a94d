"""The kernels' operator of a layer's routed experts, as nodes of OpenVINO's graphs have it."""

from __future__ import annotations

import numpy as np
import openvino as ov

from pipelines.inference.backends.openvino.model.block_linears import NOT_WIDENED
from pipelines.onnx_format.experts_format import GGUF_EXPERTS

OPERATOR = "Experts"
"""The name in OpenVINO's graphs."""
ROUTED = 3
"""Inputs before those that are constants."""
LARGEST = float(np.finfo(np.float32).max)
"""The limit of an activation that has none."""


def keep_types(model: ov.Model) -> None:
    """Let a device leave the constants of experts in their types."""
    for node in [node for node in model.get_ops() if node.get_type_name() in (OPERATOR, GGUF_EXPERTS)]:
        for value in node.input_values()[ROUTED:]:
            value.get_node().get_rt_info()[NOT_WIDENED] = 1
