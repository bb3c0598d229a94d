"""Makes Python's garbage collection rare in the processes of a server, and gives free memory back."""

from __future__ import annotations

import ctypes
import gc
import sys

YOUNG_OBJECTS = 50_000
"""Objects made and not yet freed before a collection; Python's own 700 are fewer than one step makes."""


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
    if sys.platform.startswith("linux"):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:  # musl has none
            trim(0)
