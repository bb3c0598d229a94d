"""Makes Python's garbage collection rare in the processes of a server."""

from __future__ import annotations

import gc

YOUNG_OBJECTS = 50_000
"""Objects made and not yet freed before a collection; Python's own 700 are fewer than one step makes."""


def freeze_objects() -> None:
    """Exclude all objects that exist now from later collections, and make those rarer.

    Garbage is collected first: a graph that was read would stay indefinitely.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
