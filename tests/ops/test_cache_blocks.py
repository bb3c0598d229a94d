"""Arithmetic on block tables."""

from __future__ import annotations

import numpy as np
from cache_slots import context_slots

from ops.cache_blocks import copy_blocks, slot_mapping


def test_slots_follow_the_block_table():
    table = np.array([[7, 2, 0], [5, 9, 9]], np.int32)
    starts = np.array([0, 3, 4], np.int32)
    positions = np.array([3, 4, 5, 0])
    assert slot_mapping(table, starts, positions, 4).tolist() == [31, 8, 9, 20]


def test_slots_do_not_overflow_the_tables_type():
    table = np.array([[2**31 - 1]], np.int32)
    slots = slot_mapping(table, np.array([0, 1], np.int32), np.array([3]), 4)
    assert slots.tolist() == [(2**31 - 1) * 4 + 3]


def test_a_context_is_read_in_order_and_no_further():
    assert context_slots(np.array([3, 1, 8], np.int32), 5, 4).tolist() == [12, 13, 14, 15, 4]


def test_blocks_are_copied_whole():
    cache = np.arange(12).reshape(4, 3)
    copy_blocks(cache, np.array([[0, 2], [0, 3]], np.int32))
    assert cache.tolist() == [[0, 1, 2], [3, 4, 5], [0, 1, 2], [0, 1, 2]]


def test_no_copies_change_nothing():
    cache = np.arange(6).reshape(2, 3)
    copy_blocks(cache, np.zeros((0, 2), np.int32))
    assert cache.tolist() == [[0, 1, 2], [3, 4, 5]]
