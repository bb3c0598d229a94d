"""How much of the host's memory a cache may take by default, and memory that starts on a cache line.

Knows numbers of bytes; knows nothing of models.
"""

from __future__ import annotations

import mmap
from contextlib import suppress

import numpy as np
import psutil
from numpy.typing import NDArray

FREE_SHARE = 0.4
"""Part of the free memory that a cache takes when the graph names no `memory_gb`."""
MOST_BYTES = 8 << 30
"""What a cache takes at most when the graph names no `memory_gb`."""
NOWHERE_TO_SWAP = "the cache lies in host memory already; there is nowhere to swap it to"


def spare_bytes() -> int:
    """The bytes that a cache in host memory may have by default."""
    return min(int(psutil.virtual_memory().available * FREE_SHARE), MOST_BYTES)


def aligned_zeros(num_bytes: int) -> NDArray[np.uint8]:
    """uint8[num_bytes] of zeros on a page of memory.  Pages that nothing is written to cost no memory.

    Where Linux has huge pages they are asked for: a block's first use then maps few of them instead of
    hundreds of small ones, which took longer than the block's tokens.
    """
    room = mmap.mmap(-1, max(1, num_bytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            room.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(room, np.uint8, num_bytes)
