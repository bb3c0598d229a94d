"""Blocks: references, the order in which free ones are taken, and what they still hold."""

from __future__ import annotations

import pytest

from pipelines.inference.engine.kv_cache.block_pool import BlockPool


def digest(number: int) -> bytes:
    return bytes([number])


def filled(pool: BlockPool, *numbers: int) -> list[int]:
    """Take a block for each number, register it, and free it again, in this order."""
    blocks = []
    for number in numbers:
        block = pool.take()
        pool.register(block, digest(number))
        blocks.append(block)
    for block in blocks:
        pool.release(block)
    return blocks


def test_a_freed_block_is_still_found():
    pool = BlockPool(2)
    (block,) = filled(pool, 1)
    assert pool.num_free == 2
    assert pool.find(digest(1)) == block


def test_a_free_block_that_is_shared_again_is_not_given_away():
    pool = BlockPool(2)
    (block,) = filled(pool, 1)
    pool.share(block)
    assert pool.take() != block
    assert pool.num_free == 0


def test_the_least_recently_freed_is_forgotten_first():
    pool = BlockPool(3)
    first, second, third = filled(pool, 1, 2, 3)
    pool.share(first)
    pool.release(first)
    assert [pool.take() for _ in range(3)] == [second, third, first]


def test_blocks_that_hold_nothing_are_taken_before_those_that_do():
    pool = BlockPool(3)
    first, second = filled(pool, 1, 2)
    empty = pool.take()
    pool.release(empty)
    assert pool.take() == empty
    assert pool.find(digest(1)) == first
    assert pool.find(digest(2)) == second


def test_a_block_taken_again_is_not_found_by_what_it_held():
    pool = BlockPool(1)
    filled(pool, 1)
    pool.take()
    assert pool.find(digest(1)) is None


def test_a_block_is_free_when_its_last_owner_leaves():
    pool = BlockPool(1)
    block = pool.take()
    pool.share(block)
    pool.release(block)
    assert pool.num_free == 0
    pool.release(block)
    assert pool.num_free == 1


def test_the_first_block_with_a_digest_keeps_it():
    pool = BlockPool(2)
    first, second = pool.take(), pool.take()
    pool.register(first, digest(1))
    pool.register(second, digest(1))
    assert pool.find(digest(1)) == first
    pool.release(second)
    assert pool.take() == second
    assert pool.find(digest(1)) == first


def test_the_pool_is_a_hard_bound():
    pool = BlockPool(1)
    pool.take()
    with pytest.raises(KeyError):
        pool.take()


def test_a_digest_that_is_forgotten_is_found_no_more_and_its_block_is_taken_next():
    pool = BlockPool(3)
    first, second = filled(pool, 1, 2)
    pool.remove_digest(digest(2))
    pool.remove_digest(digest(3))
    assert pool.find(digest(2)) is None
    assert pool.take() == second
    assert pool.find(digest(1)) == first
