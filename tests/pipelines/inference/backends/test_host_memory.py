"""Memory that is mapped before it is needed: what it holds, how much of it is there."""

from __future__ import annotations

import mmap
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from pipelines.inference.backends import host_memory
from pipelines.inference.backends.host_memory import HUGE_PAGE_BYTES, aligned_zeros, prefault

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
MIB = 1 << 20


def resident_bytes(array: np.ndarray) -> int:
    """Of the pages of the array, which begins with one."""
    first, count = array.ctypes.data // mmap.PAGESIZE, -(-array.nbytes // mmap.PAGESIZE)
    with Path("/proc/self/pagemap").open("rb") as file:
        file.seek(8 * first)
        entries = np.frombuffer(file.read(8 * count), np.uint64)
    return int((entries >> 63).sum()) * mmap.PAGESIZE


def huge_bytes(array: np.ndarray) -> int:
    """Of all maps that hold a part of the array, in huge pages."""
    begin, end = array.ctypes.data, array.ctypes.data + array.nbytes
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(found[1], 16) < end and begin < int(found[2], 16)
        elif inside and line.startswith("AnonHugePages:"):
            total += int(line.split()[1]) * 1024
    return total


def test_memory_begins_on_a_page_with_zeros():
    array = aligned_zeros(3 * HUGE_PAGE_BYTES + 5)
    assert array.shape == (3 * HUGE_PAGE_BYTES + 5,)
    assert array.ctypes.data % 4096 == 0
    assert not array.any()


@on_linux
def test_the_first_pages_of_all_arrays_are_mapped_and_what_is_written_stays(monkeypatch):
    monkeypatch.setattr(host_memory, "MAX_PREFAULT_BYTES", 2 * MIB)
    arrays = [aligned_zeros(24 * MIB).reshape(3, -1), aligned_zeros(8 * MIB)]
    arrays[0][0, 7] = 200
    prefault(arrays)
    sizes = [resident_bytes(array) for array in arrays]
    if sizes[1] == 0:
        pytest.skip("this kernel maps nothing ahead")
    assert sizes == [3 * MIB // 2, MIB // 2]
    assert (arrays[0].sum(), arrays[0][0, 7]) == (200, 200)


@on_linux
def test_the_first_and_the_last_block_of_many_arrays_take_small_pages():
    arrays = [aligned_zeros(16 * MIB) for _ in range(8)]
    for array in arrays:
        array[0] = array[-1] = 1
    assert sum(map(resident_bytes, arrays)) <= 8 * 2 * 65536  # two pages of each, as large as pages may be


@on_linux
def test_huge_pages_are_between_them():
    array = aligned_zeros(64 * MIB)
    array[:] = 1
    if huge_bytes(array) == 0:
        pytest.skip("this system has no huge pages, or none left")
    assert huge_bytes(array) <= 60 * MIB


def test_small_arrays_are_mapped_whole(monkeypatch):
    mapped = []
    monkeypatch.setattr(host_memory, "_populate", lambda piece: not mapped.append(piece.nbytes))
    prefault([aligned_zeros(5000), aligned_zeros(7)])
    assert mapped == [5000, 7]


def test_half_of_the_free_memory_is_left(monkeypatch):
    mapped = []
    monkeypatch.setattr(host_memory, "_populate", lambda piece: not mapped.append(piece.nbytes))
    monkeypatch.setattr(host_memory, "free_bytes", lambda: 2 * MIB)
    prefault([aligned_zeros(6 * MIB), aligned_zeros(2 * MIB)])
    assert mapped == [768 << 10, 256 << 10]


def test_a_kernel_that_cannot_is_asked_once(monkeypatch):
    asked = []
    monkeypatch.setattr(host_memory, "_populate", lambda piece: asked.append(piece) is not None)
    prefault([aligned_zeros(MIB), aligned_zeros(MIB)])
    assert len(asked) == 1


def test_nothing_is_mapped_of_nothing():
    prefault([])
    prefault([aligned_zeros(0)])
