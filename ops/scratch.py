"""Temporary arrays that each thread reuses from call to call.

Allocating such memory again and again costs as much as the computation.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_arrays = threading.local()


def scratch(name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array of undefined content, valid until the same thread requests the same name again."""
    size = int(np.prod(shape))
    array: NDArray[Any] | None = getattr(_arrays, name, None)
    if array is None or array.size < size:
        array = np.empty(size, dtype)
        setattr(_arrays, name, array)
    return array[:size].reshape(shape)
