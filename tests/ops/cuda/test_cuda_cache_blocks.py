"""Blocks that move among pools against numpy, for all sizes and alignments."""

import numpy as np
import pytest

from ops import cache_blocks as host
from ops.cuda import cache_blocks

SHAPES = [(1,), (3,), (16,), (2, 8, 5), (700,), (1024, 5)]
"""Of a block; bytes that are a multiple of 16, and such that are not."""


def make_pools(random, make, num_blocks, dtype=np.uint16):
    pools = [make((num_blocks, *shape), dtype) for shape in SHAPES]
    for pool in pools:
        pool[...] = random.integers(0, 60_000, pool.shape)
    return pools


def pairs(*rows):
    return np.array(rows, np.int32).reshape(-1, 2)


def test_copies_are_those_of_numpy(device):
    pools = make_pools(np.random.default_rng(0), device.empty, 9)
    expected = [pool.copy() for pool in pools]
    wanted = pairs((0, 3), (0, 4), (8, 1), (7, 2))
    device.launches.clear()
    cache_blocks.copy_blocks(device, pools, wanted)
    assert device.launches == ["move_blocks"]
    for pool, copy in zip(pools, expected, strict=True):
        host.copy_blocks(copy, wanted)
        np.testing.assert_array_equal(pool, copy)


def test_swaps_go_out_and_come_back(one_device):
    random = np.random.default_rng(1)
    pools = make_pools(random, one_device.empty, 6)
    pinned = make_pools(random, one_device.pinned, 4)
    before, kept = [pool.copy() for pool in pools], [pool.copy() for pool in pinned]
    cache_blocks.swap_out(one_device, pools, pinned, pairs((5, 0), (2, 3)))
    cache_blocks.swap_in(one_device, pools, pinned, pairs((0, 1), (3, 5)))
    one_device.synchronize()
    for pool, host_pool, old, old_host in zip(pools, pinned, before, kept, strict=True):
        np.testing.assert_array_equal(host_pool, np.stack([old[5], old_host[1], old_host[2], old[2]]))
        np.testing.assert_array_equal(pool, np.stack([old[0], old[5], old[2], old[3], old[4], old[2]]))


def test_nothing_to_move_is_no_launch(one_device):
    one_device.launches.clear()
    cache_blocks.copy_blocks(one_device, [one_device.zeros((2, 3), np.uint8)], pairs())
    cache_blocks.copy_blocks(one_device, [], pairs((0, 1)))
    assert one_device.launches == []


@pytest.mark.parametrize("pair", [(0, 4), (4, 0), (-1, 0), (0, -1)])
def test_a_pair_that_names_no_block_is_refused(one_device, pair):
    pool = one_device.zeros((4, 3), np.uint8)
    with pytest.raises(IndexError, match="no block"):
        cache_blocks.copy_blocks(one_device, [pool, one_device.zeros((5, 2), np.uint8)], pairs(pair))


def test_pools_of_other_blocks_are_refused(one_device):
    one, other = one_device.zeros((4, 3), np.uint8), one_device.pinned((4, 6), np.uint8)
    with pytest.raises(ValueError, match="blocks differ"):
        cache_blocks.swap_out(one_device, [one], [other], pairs((0, 0)))
