"""Reads files of safetensors as float32: numpy alone, of which bfloat16 is no type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import deserialize

FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
"""Types that numpy has, by safetensors' names."""
_deserialize: Callable[[bytes], list[tuple[str, dict[str, Any]]]] = deserialize  # has no types of its own


def read_float_tensors(file: Path) -> dict[str, NDArray[np.float32]]:
    """All tensors of a file; raises OSError, SafetensorError, and KeyError for numbers that are no floats."""
    return {name: _floats(tensor) for name, tensor in _deserialize(file.read_bytes())}


def _floats(tensor: dict[str, Any]) -> NDArray[np.float32]:
    """numpy has no bfloat16, the upper half of a float32."""
    shape, data = tensor["shape"], tensor["data"]
    if tensor["dtype"] == "BF16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
    return np.frombuffer(data, FLOATS[tensor["dtype"]]).astype(np.float32).reshape(shape)
