"""The element types of tensors: numpy's names for numbers and booleans, "bfloat16", and "bytes" for strings.

A tensor of strings is an array of Python's bytes objects (numpy's type "object").
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from ml_dtypes import bfloat16
from numpy.typing import NDArray

BFLOAT16, BYTES = "bfloat16", "bytes"
_NUMBERS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
DTYPES: dict[str, np.dtype[Any]] = {
    **{name: np.dtype(name) for name in _NUMBERS},
    BFLOAT16: np.dtype(bfloat16),
    BYTES: np.dtype(object),
}
"""Name → numpy's type, for every type that tensors may have."""
LENGTH_BYTES = 4
"""What each string takes beside its bytes: its length."""


@cache
def name_of(dtype: np.dtype[Any]) -> str:
    """The name of an element type, in either byte order; numpy's own for what tensors may not have.

    Cached: numpy takes as long to make the name as to copy a small array.
    """
    return BYTES if dtype.hasobject else dtype.name


def num_bytes(array: NDArray[Any]) -> int:
    """The bytes of all elements in a message.  Raises TypeError for objects without a length."""
    if not array.dtype.hasobject:
        return array.nbytes
    return sum(map(len, array.flat)) + LENGTH_BYTES * array.size
