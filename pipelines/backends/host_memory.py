"""How much of the host's memory a cache may take by default, and memory that starts on a cache line.

Knows numbers of bytes; knows nothing of models.
"""

from __future__ import annotations

import numpy as np
import psutil
from numpy.typing import NDArray

FREE_SHARE = 0.4
"""Part of the free memory that a cache takes when the graph names no `memory_gb`."""
MOST_BYTES = 8 << 30
"""What a cache takes at most when the graph names no `memory_gb`."""
NOWHERE_TO_SWAP = "the cache lies in host memory already; there is nowhere to swap it to"
LINE_BYTES = 64  # a cache line, what the engines' own tensors start on


def spare_bytes() -> int:
    """The bytes that a cache in host memory may have by default."""
    return min(int(psutil.virtual_memory().available * FREE_SHARE), MOST_BYTES)


def aligned_zeros(num_bytes: int) -> NDArray[np.uint8]:
    """uint8[num_bytes] of zeros on a cache line.  Pages that nothing is written to cost no memory."""
    room = np.zeros(num_bytes + LINE_BYTES, np.uint8)
    skip = -room.ctypes.data % LINE_BYTES
    return room[skip : skip + num_bytes]
