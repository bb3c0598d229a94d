"""How much of the host's memory a cache may take by default, and memory that is there before it is needed.

Knows numbers of bytes; knows nothing of models.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from pipelines.host.backends.free_memory import free_bytes

FREE_SHARE = 0.4
"""Part of the free memory that a cache takes when the graph names no `memory_gb`."""
MOST_BYTES = 8 << 30
"""What a cache takes at most when the graph names no `memory_gb`."""
NO_SWAP_SPACE = "the cache lies in host memory already; there is nowhere to swap it to"
PIECE_BYTES = 2 << 20
"""What is mapped at once: a huge page of most machines."""
PIECES_PER_TURN = 16
"""Between two looks at the mail: 1.5 ms, or 70 where a hypervisor has yet to find the memory."""
MOST_AHEAD_BYTES = 2 << 30
"""A cache beyond it grows as it is used: a large one of which nobody asks much stays small."""
MADV_POPULATE_WRITE = 23  # of Linux 5.14, which Python does not name


def default_cache_bytes() -> int:
    """The bytes that a cache in host memory may have by default."""
    return min(int(free_bytes() * FREE_SHARE), MOST_BYTES)


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


class PagePrefault:
    """What of some arrays of `aligned_zeros` is not mapped yet: they are the parts of a cache's blocks.

    Their first pieces come first, for the first blocks are used first.  What they hold is not changed.
    """

    def __init__(self, arrays: Sequence[NDArray[np.uint8]]) -> None:
        self._pieces = _pieces([array.reshape(-1) for array in arrays])
        self._left_bytes = MOST_AHEAD_BYTES

    def prefault_some(self, num_pieces: int = PIECES_PER_TURN) -> bool:
        """Map the next pieces as a first write would; whether there are more.

        Never more than MOST_AHEAD_BYTES of all, and than half of what is free, for other caches grow too;
        nothing where the kernel cannot without a write.
        """
        self._left_bytes = min(self._left_bytes, free_bytes() // 2)
        for piece in islice(self._pieces, num_pieces):
            self._left_bytes -= piece.nbytes
            if self._left_bytes < 0 or not _populate(piece):
                self._pieces = iter(())
                return False
            num_pieces -= 1
        return num_pieces == 0


def _pieces(arrays: Sequence[NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    longest = max((len(array) for array in arrays), default=0)
    for begin in range(0, longest, PIECE_BYTES):
        yield from (array[begin : begin + PIECE_BYTES] for array in arrays if len(array) > begin)


def _populate(piece: NDArray[np.uint8]) -> bool:
    """Whether the kernel has mapped it; it begins on a page.  The GIL is released meanwhile."""
    libc = _libc()
    return libc is not None and libc.madvise(piece.ctypes.data, piece.nbytes, MADV_POPULATE_WRITE) == 0


@cache
def _libc() -> ctypes.CDLL | None:
    """The C library of Linux; other systems give advice another meaning."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc
