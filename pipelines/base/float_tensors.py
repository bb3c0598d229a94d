"""Reads files of safetensors as float32: numpy alone, of which bfloat16 is no type."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
"""Types that numpy has, by safetensors' names."""
SIZE_BYTES, MAX_HEADER_BYTES = 8, 100_000_000
"""Bytes of the number before the header, and the most of a header, as safetensors itself bounds it."""
_deserialize: Callable[[bytes], list[tuple[str, dict[str, Any]]]] = deserialize  # has no types of its own


def tensor_names(file: Path) -> list[str]:
    """The names of the tensors of a file, of which the header alone is read; raises OSError and
    SafetensorError.

    safetensors' own functions map the file, and would end the process where it is cut short meanwhile.
    """
    with file.open("rb") as opened:
        size, *_ = struct.unpack("<Q", opened.read(SIZE_BYTES).ljust(SIZE_BYTES, b"\xff"))
        if size > MAX_HEADER_BYTES:
            raise SafetensorError("the header is cut short or too long")
        header = opened.read(size)
    try:
        return [name for name in json.loads(header) if name != "__metadata__"]
    except (ValueError, TypeError) as error:
        raise SafetensorError(f"the header is no JSON: {error}") from error


def read_float_tensors(file: Path) -> dict[str, NDArray[np.float32]]:
    """All tensors of a file; raises OSError, SafetensorError, and KeyError for numbers that are no floats."""
    return {name: _floats(tensor) for name, tensor in _deserialize(file.read_bytes())}


def _floats(tensor: dict[str, Any]) -> NDArray[np.float32]:
    """numpy has no bfloat16, the upper half of a float32."""
    shape, data = tensor["shape"], tensor["data"]
    if tensor["dtype"] == "BF16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
    return np.frombuffer(data, FLOATS[tensor["dtype"]]).astype(np.float32).reshape(shape)
