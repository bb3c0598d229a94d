"""Weights of a GGUF tensor as arrays: floats, or codes of blocks with scales and zero points."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.gguf.errors import GgufError
from pipelines.gguf.reader import EVERY, GgufTensor, Rows
from pipelines.gguf.tensor_types import PACKED_TYPES, Bytes, Floats, Parts

EXPONENT = np.uint16(0x7F80)
"""The exponent bits of a bfloat16: all of them set in what is not finite."""
WIDER = 128 - 8
"""What is added to a code of 4 bits to keep its weight in 8."""
DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}
"""Float type → how numpy views it; it has no bfloat16."""


def is_float(tensor: GgufTensor) -> bool:
    return tensor.type.name in DTYPES


def read_floats(tensor: GgufTensor) -> Floats:
    """float32[rows, width] of a tensor of float type."""
