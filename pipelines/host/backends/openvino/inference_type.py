"""The type in which OpenVINO computes."""

from __future__ import annotations

import openvino as ov


def inference_type(precision: str | None) -> ov.Type:
    """What the CPU computes in where `precision` is set; float32 where it has no kernels for that."""
    core = ov.Core()
    if precision is not None:
        core.set_property("CPU", {"INFERENCE_PRECISION_HINT": precision})
    return core.get_property("CPU", "INFERENCE_PRECISION_HINT")
