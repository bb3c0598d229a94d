"""The default size of a cache in host memory, and memory pages that are mapped before their first use."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.backends.free_memory import free_bytes

FREE_SHARE = 0.4
"""Part of the free memory that a cache takes when the graph has no `memory_gb`."""
MAX_CACHE_BYTES = 8 << 30
"""Upper limit in bytes of a cache when the graph has no `memory_gb`."""
NO_SWAP_SPACE = "the cache is in host memory already; there is no other memory to swap it to"
HUGE_PAGE_BYTES = 2 << 20
"""The size of a huge page on most machines."""
MAX_PREFAULT_BYTES = 32 << 20
"""Bytes of a cache mapped before use at most: the first prompts find them, and an idle server stays small."""
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
    hundreds, which took longer than computing the block's tokens.  Both ends have small pages: the first
    block of a cache with dozens of arrays, and the last one, which is for warm-up steps, would else take
    2 MiB of each.
    """
    room = mmap.mmap(-1, max(1, num_bytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        inner = num_bytes // HUGE_PAGE_BYTES - 2
        with suppress(OSError):  # a kernel without them
            room.madvise(mmap.MADV_NOHUGEPAGE)
            if inner > 0:
                room.madvise(mmap.MADV_HUGEPAGE, HUGE_PAGE_BYTES, inner * HUGE_PAGE_BYTES)
    return np.frombuffer(room, np.uint8, num_bytes)


def prefault(arrays: Sequence[NDArray[np.uint8]]) -> None:
    """Map the first pages of arrays of `aligned_zeros`, which hold the blocks of a cache, before they are
    used: first blocks are used first.  The content of the arrays does not change.

    At most MAX_PREFAULT_BYTES in all, of each array the same share, and at most half of the free memory.
    Nothing is mapped where the kernel cannot do it without a write.
    """
    num_bytes = min(MAX_PREFAULT_BYTES, free_bytes() // 2)
    share = min(1.0, num_bytes / max(1, sum(array.nbytes for array in arrays)))
    for array in arrays:
        if not _populate(array.reshape(-1)[: int(array.nbytes * share)]):
            return


def _populate(piece: NDArray[np.uint8]) -> bool:
    """Map the pages of a piece, which starts at a page; whether the kernel did."""
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
