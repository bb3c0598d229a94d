"""Memory that is mapped before it is needed: what it holds, how much of it is there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from pipelines.host.backends import host_memory
from pipelines.host.backends.host_memory import HUGE_PAGE_BYTES, PagePrefault, aligned_zeros

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
MIB = 1 << 20


def resident_bytes(array: np.ndarray) -> int:
    """Of all maps that hold a part of the array, in whole pages."""
    begin, end = array.ctypes.data, array.ctypes.data + array.nbytes
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(found[1], 16) < end and begin < int(found[2], 16)
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    return total


def test_memory_begins_on_a_page_with_zeros():
    array = aligned_zeros(3 * HUGE_PAGE_BYTES + 5)
    assert array.shape == (3 * HUGE_PAGE_BYTES + 5,)
    assert array.ctypes.data % 4096 == 0
    assert not array.any()


@on_linux
def test_pieces_are_mapped_turn_by_turn_and_what_is_written_stays():
    arrays = [aligned_zeros(3 * HUGE_PAGE_BYTES).reshape(3, -1), aligned_zeros(HUGE_PAGE_BYTES + 9)]
    arrays[0][1, 7] = 200
    unmapped = PagePrefault(arrays)
    assert unmapped.prefault_some(
        2
    )  # the first pieces of both: to the ends of the huge pages that they are in
    if resident_bytes(arrays[1]) == 0:
        pytest.skip("this kernel maps nothing ahead")
    for array in arrays:
        assert resident_bytes(array) >= HUGE_PAGE_BYTES - array.ctypes.data % HUGE_PAGE_BYTES
    while unmapped.prefault_some(2):
        pass
    assert not unmapped.prefault_some(2)
    assert [resident_bytes(array) >= array.nbytes for array in arrays] == [True, True]
    assert (arrays[0].sum(), arrays[0][1, 7]) == (200, 200)


@on_linux
def test_no_more_is_mapped_than_the_bound(monkeypatch):
    monkeypatch.setattr(host_memory, "MAX_PREFAULT_BYTES", 4 * HUGE_PAGE_BYTES)
    array = aligned_zeros(64 * MIB)
    unmapped = PagePrefault([array])
    while unmapped.prefault_some(3):
        pass
    assert resident_bytes(array) <= 6 * HUGE_PAGE_BYTES  # a huge page may reach beyond either end


def test_what_others_took_meanwhile_is_not_mapped(monkeypatch):
    free = [64 * HUGE_PAGE_BYTES]
    monkeypatch.setattr(host_memory, "free_bytes", lambda: free[0])
    mapped = []
    monkeypatch.setattr(host_memory, "_populate", lambda piece: not mapped.append(piece))
    unmapped = PagePrefault([aligned_zeros(100 * HUGE_PAGE_BYTES)])
    assert unmapped.prefault_some(3)
    free[0] = 4 * HUGE_PAGE_BYTES
    assert not unmapped.prefault_some(3)
    assert len(mapped) == 3 + 2


def test_a_kernel_that_cannot_is_asked_once(monkeypatch):
    asked = []
    monkeypatch.setattr(host_memory, "_populate", lambda piece: asked.append(piece) is not None)
    unmapped = PagePrefault([aligned_zeros(8 * HUGE_PAGE_BYTES)])
    assert not unmapped.prefault_some()
    assert not unmapped.prefault_some()
    assert len(asked) == 1


def test_nothing_is_left_of_nothing():
    assert not PagePrefault([]).prefault_some()
