"""A process that settled keeps what lives, and none of what was garbage before."""

from __future__ import annotations

import gc
import weakref

import pytest

from pipelines.garbage_collection import YOUNG_OBJECTS, freeze_objects


class Node:
    """One that knows itself, as nodes of a graph know each other."""

    def __init__(self):
        self.itself = self


@pytest.fixture
def collections():
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)


def test_what_is_garbage_goes_before_the_rest_is_kept(collections):
    node = weakref.ref(Node())
    freeze_objects()
    assert node() is None
    assert gc.get_threshold()[0] == YOUNG_OBJECTS
    assert gc.get_freeze_count() > 0
