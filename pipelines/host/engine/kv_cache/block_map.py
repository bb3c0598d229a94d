"""A map of a cache for people: which sequence owns which block, in runs of block numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from pipelines.host.engine.kv_cache.block_pool import BlockPool
from pipelines.wire.engine_view import FREE, MAX_BLOCK_RUNS, REUSABLE, SHARED


def block_map(pool: BlockPool, owned: Sequence[list[int]]) -> list[tuple[int, int]]:
    """(number of blocks, owner), in the order of block numbers; an owner is a place in `owned`, the blocks of
    each sequence, or FREE, REUSABLE, SHARED.

    At most MAX_BLOCK_RUNS: where there are more, every k-th block stands for the k - 1 after it.
    """
    if not pool.num_blocks:
        return []
    owners, stride = _owners(pool, owned), 1
    if np.count_nonzero(np.diff(owners)) >= MAX_BLOCK_RUNS:
        stride = -(-pool.num_blocks // MAX_BLOCK_RUNS)
        owners = owners[::stride]
    starts = np.concatenate(([0], np.flatnonzero(np.diff(owners)) + 1))
    ends = np.append(starts[1:] * stride, pool.num_blocks)
    return list(zip((ends - starts * stride).tolist(), owners[starts].tolist(), strict=True))


def _owners(pool: BlockPool, owned: Sequence[list[int]]) -> NDArray[np.int32]:
    """int32[num_blocks]: the owner of each block."""
    owners = np.full(pool.num_blocks, SHARED, np.int32)
    free = np.fromiter(pool.free, np.intp, pool.num_free)
    owners[free] = FREE
    owners[free[pool.num_free - pool.num_reusable :]] = REUSABLE  # the last ones of the free
    sizes = list(map(len, owned))
    blocks = np.fromiter(chain.from_iterable(owned), np.intp, sum(sizes))
    owners[blocks] = np.repeat(np.arange(len(owned)), sizes)
    owners[np.bincount(blocks, minlength=pool.num_blocks) > 1] = SHARED
    return owners
