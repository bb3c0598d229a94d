"""Makes Python's garbage collection rare in the processes of a server, and gives free memory back."""

from __future__ import annotations

import ctypes
import gc
import sys

YOUNG_OBJECTS = 50_000
"""Objects made and not yet freed before a collection; Python's own 700 are fewer than one step makes.

Of 2,000 small chats in a worker (2 EPYC cores, Python 3.11): 1.9 s of processor time and 2 collections, the
longest 22 ms; with 5,000 objects 2.5 s, 20 and 3 ms; with 700 2.6 s and 136.  It bounds no memory: requests
hold themselves in no cycle, and 400 of 2 MB raise a worker by 9 MB with 50,000 and with 700 alike.
"""


M_MMAP_THRESHOLD = -3
"""The option's number in glibc's malloc.h."""
LARGE_BYTES = 1 << 20
"""Bodies of many requests and their texts; Braid's small objects are far below."""


def freeze_objects() -> None:
    """Exclude all objects that exist now from later collections, and make those rarer.

    Garbage is collected first: a graph that was read would stay indefinitely.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


def release_free_pages() -> None:
    """Give back to the system what malloc holds for later: after a load hundreds of MB, after opening a
    tokenizer as much as it takes itself.
    """
    _call_malloc("malloc_trim", 0)


def map_large_blocks() -> None:
    """Have malloc map each block from LARGE_BYTES on by itself, and give it back once it is free.

    By default glibc puts blocks of the size of the largest one that was freed, up to 32 MiB, among the small
    ones, which hold their pages when they are free: after 24 attacks with bodies of 8 MB a worker stayed
    90 MB larger, with this 16 MB.
    """
    _call_malloc("mallopt", M_MMAP_THRESHOLD, LARGE_BYTES)


def _call_malloc(name: str, *numbers: int) -> None:
    """Call a function of glibc's malloc; musl and other systems have none."""
    function = getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None
    if function is not None:
        function(*numbers)
