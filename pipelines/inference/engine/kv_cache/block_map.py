"""A map of a cache for people: which sequence owns which block, in runs of block numbers."""

from __future__ import annotations

from collections.abc import Sequence as Many

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.engine.kv_cache.block_pool import BlockPool
from pipelines.inference.engine.kv_cache.cache import Cache
from pipelines.inference.engine.sequences.sequence import Sequence
from pipelines.wire.engine_view import FREE, MAX_BLOCK_RUNS, REUSABLE, SHARED


def block_map(cache: Cache, shown: Many[Sequence]) -> list[tuple[int, int]]:
    """(number of blocks, owner), in the order of block numbers; an owner is a place in `shown`, or FREE,
    REUSABLE, SHARED.

    At most MAX_BLOCK_RUNS: where there are more, every k-th block stands for the k - 1 after it.
    """
    num_blocks = cache.pool.num_blocks
    if not num_blocks:
        return []
    owners, stride = _owners(cache, shown), 1
    if np.count_nonzero(np.diff(owners)) >= MAX_BLOCK_RUNS:
        stride = -(-num_blocks // MAX_BLOCK_RUNS)
        owners = owners[::stride]
    starts = np.concatenate(([0], np.flatnonzero(np.diff(owners)) + 1))
    ends = np.append(starts[1:] * stride, num_blocks)
    return list(zip((ends - starts * stride).tolist(), owners[starts].tolist(), strict=True))


def _owners(cache: Cache, shown: Many[Sequence]) -> NDArray[np.int32]:
    """int32[num_blocks]: the owner of each block."""
    slots = cache.slots
    owners = _unowned(cache.pool)
    own, owned_by = _blocks(slots.block_table, shown, [len(one.blocks) for one in shown])
    owners[own] = owned_by
    attended, attended_by = _blocks(slots.encoder_table, shown, [len(one.encoder_blocks) for one in shown])
    owners[attended] = attended_by
    owners[np.bincount(np.append(own, attended), minlength=len(owners)) > 1] = SHARED
    return owners


def _unowned(pool: BlockPool) -> NDArray[np.int32]:
    """The owner of each block where none is shown."""
    owners = np.full(pool.num_blocks, SHARED, np.int32)
    free = np.fromiter(pool.free, np.intp, pool.num_free)
    owners[free] = FREE
    owners[free[pool.num_free - pool.num_reusable :]] = REUSABLE  # the last ones of the free
    return owners


def _blocks(
    table: NDArray[np.int32], shown: Many[Sequence], sizes: list[int]
) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
    """The blocks of all sequences by their slots, of each the first `sizes`, and the places of the owners."""
    lengths = np.array(sizes, np.intp)
    rows = table[[one.slot for one in shown], : lengths.max(initial=0)]
    return rows[np.arange(rows.shape[1]) < lengths[:, None]], np.repeat(np.arange(len(shown)), lengths)
