"""Memory for what lasts no longer than one pass: each thread keeps its own from call to call.

To ask the system for such memory again and again costs as much as the passes.  Knows sizes; knows nothing of
what is computed.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_kept = threading.local()


def scratch(name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array of any content.  It is the caller's until its thread asks for the same name again."""
    size = int(np.prod(shape))
    array: NDArray[Any] | None = getattr(_kept, name, None)
    if array is None or array.size < size:
        array = np.empty(size, dtype)
        setattr(_kept, name, array)
    return array[:size].reshape(shape)
