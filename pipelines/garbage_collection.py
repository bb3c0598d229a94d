"""When Python looks for garbage in the processes of a server.  Knows nothing of what they do."""

from __future__ import annotations

import gc

YOUNG_OBJECTS = 50_000
"""Made and not yet freed before the young are looked through: Python's own 700 are less than a step makes."""


def settle() -> None:
    """What lives now lives as long as the process: collections need not visit it, and come more rarely.

    What is garbage goes first: a graph that was read would stay for ever.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
