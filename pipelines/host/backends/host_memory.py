"""The default size of a cache in host memory, and memory pages that are mapped before their first use."""

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
"""Part of the free memory that a cache takes when the graph has no `memory_gb`."""
MAX_CACHE_BYTES = 8 << 30
"""Upper limit in bytes of a cache when the graph has no `memory_gb`."""
NO_SWAP_SPACE = "the cache is in host memory already; there is no other memory to swap it to"
HUGE_PAGE_BYTES = 2 << 20
"""Bytes that are mapped in one call: a huge page on most machines."""
PAGES_PER_CALL = 16
"""Pages mapped between two looks at the queue: 1.5 ms, or 70 where a hypervisor has to find the memory."""
MAX_PREFAULT_BYTES = 128 << 20
"""Bytes mapped before use at most: the first prompts find them, and an idle server stays small."""
MADV_POPULATE_WRITE = 23  # of Linux 5.14, which Python does not name


_default_limits = [MAX_CACHE_BYTES]


def limit_default_caches(num_bytes: int) -> None:
    """From now on no cache of this process is larger whose graph has no `memory_gb`."""
    _default_limits.append(num_bytes)


def default_cache_bytes() -> int:
    """The default size in bytes of a cache in host memory."""
    return min(int(free_bytes() * FREE_SHARE), *_default_limits)


def aligned_zeros(num_bytes: int) -> NDArray[np.uint8]:
    """Zeros uint8[num_bytes] aligned to a memory page.  A page uses no memory before its first write.

    Huge pages are requested where Linux has them: the first use of a block then maps few pages instead of
    hundreds, which took longer than computing the block's tokens.
    """
    room = mmap.mmap(-1, max(1, num_bytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            room.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(room, np.uint8, num_bytes)


class PagePrefault:
    """Maps the pages of arrays of `aligned_zeros` before they are used: the arrays hold the blocks of a
    cache.

    The first pages of all arrays come first, because the first blocks are used first.  The content of the
    arrays does not change.
    """

    def __init__(self, arrays: Sequence[NDArray[np.uint8]]) -> None:
        self._pieces = _pieces([array.reshape(-1) for array in arrays])
        self._left_bytes = MAX_PREFAULT_BYTES

    def prefault_some(self, num_pieces: int = PAGES_PER_CALL) -> bool:
        """Map the next pages as a first write would; return whether more are left.

        At most MAX_PREFAULT_BYTES in all, and at most half of the free memory, because other caches grow too.
        Nothing is mapped where the kernel cannot do it without a write.
        """
        self._left_bytes = min(self._left_bytes, free_bytes() // 2)
        for piece in islice(self._pieces, num_pieces):
            self._left_bytes -= HUGE_PAGE_BYTES
            if self._left_bytes < 0 or not _populate(piece):
                self._pieces = iter(())
                return False
            num_pieces -= 1
        return num_pieces == 0


def _pieces(arrays: Sequence[NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    """The parts of arrays in one huge page each.  An array begins anywhere in one, often behind another."""
    offsets = [array.ctypes.data % HUGE_PAGE_BYTES for array in arrays]
    longest = max((each + len(array) for each, array in zip(offsets, arrays, strict=True)), default=0)
    for begin in range(0, longest, HUGE_PAGE_BYTES):
        for offset, array in zip(offsets, arrays, strict=True):
            if offset + len(array) > begin:
                yield array[max(0, begin - offset) : begin - offset + HUGE_PAGE_BYTES]


def _populate(piece: NDArray[np.uint8]) -> bool:
    """Map the pages of a piece, which starts at a page; whether the kernel did.  The GIL is released."""
    libc = _libc()
    return libc is not None and libc.madvise(piece.ctypes.data, piece.nbytes, MADV_POPULATE_WRITE) == 0


@cache
def _libc() -> ctypes.CDLL | None:
    """The C library on Linux, else None: other systems define other values for madvise."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc
