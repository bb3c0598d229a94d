"""The types in which OpenVINO computes."""

from __future__ import annotations

from pathlib import Path

import openvino as ov

CPU_FLAGS = Path("/proc/cpuinfo")
INT8_SUMS = frozenset({"avx512_vnni", "avx_vnni"})
"""Flags of processors with instructions for int8 matrix multiplications."""


def inference_type(precision: str | None) -> ov.Type:
    """What the CPU computes in where `precision` is set; float32 where it has no kernels for that."""
    core = ov.Core()
    if precision is not None:
        core.set_property("CPU", {"INFERENCE_PRECISION_HINT": precision})
    return core.get_property("CPU", "INFERENCE_PRECISION_HINT")


def has_int8_sums(flags: Path = CPU_FLAGS) -> bool:
    """Whether OpenVINO rounds what meets compressed weights to int8 on this CPU; False where that is not
    known.
    """
    try:
        lines = flags.read_text().splitlines()
    except OSError:
        return False
    return any(not INT8_SUMS.isdisjoint(line.split()) for line in lines if line.startswith("flags"))
