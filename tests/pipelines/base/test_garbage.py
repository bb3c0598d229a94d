"""A process that settled keeps what lives, none of what was garbage before, and no free memory."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest

from pipelines.base.garbage_collection import YOUNG_OBJECTS, freeze_objects


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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have another malloc")
def test_free_memory_goes_back_to_the_system():
    code = """
import psutil
from pipelines.base.garbage_collection import release_free_pages
made = [bytes(10_000) for _ in range(5_000)]
last = made.pop()  # behind all others, so that malloc keeps what is freed before it
del made
before = psutil.Process().memory_info().rss
release_free_pages()
print(before - psutil.Process().memory_info().rss)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 40_000_000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have another malloc")
def test_large_blocks_leave_no_holes_between_small_ones():
    code = """
import psutil
from pipelines.base.garbage_collection import map_large_blocks
map_large_blocks()
begun = psutil.Process().memory_info().rss
small = []
for _ in range(9):
    made = []
    for _ in range(9):
        made.append(bytearray(8_000_000))
        small.append(bytes(100_000))
    del made
print(psutil.Process().memory_info().rss - begun - sum(map(len, small)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 4_000_000
