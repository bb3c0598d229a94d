"""Copies whole blocks of paged caches on the device, or between it and pinned host memory, in one launch.

Reference: `ops.cache_blocks.copy_blocks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.cuda.device import Array, Device
from ops.cuda.packed_arrays import pack_arrays

THREADS = 256
Pairs = NDArray[np.int32]
HostPools = Sequence[NDArray[Any]]
"""Pools in the host's memory, made by `Device.pinned`."""


def copy_blocks(device: Device, pools: Sequence[Array], pairs: Pairs) -> None:
    """In every pool [num_blocks, ...]: pool[target] = pool[source]; pairs: int32[k, 2], (source, target).

    No target is a source.  Does not wait.  Raises IndexError for a pair outside the pools.
    """
    move_blocks(device, pools, pools, pairs)


def swap_out(device: Device, pools: Sequence[Array], host_pools: HostPools, pairs: Pairs) -> None:
    """Start copies to pinned memory; pairs: int32[k, 2], (block, host block)."""
    move_blocks(device, pools, host_pools, pairs)


def swap_in(device: Device, pools: Sequence[Array], host_pools: HostPools, pairs: Pairs) -> None:
    """Start copies from pinned memory; pairs: int32[k, 2], (host block, block)."""
    move_blocks(device, host_pools, pools, pairs)


def move_blocks(device: Device, sources: Sequence[Array], targets: Sequence[Array], pairs: Pairs) -> None:
    """targets[i][target] = sources[i][source] for all pools and pairs; pairs: int32[k, 2], (source, target).

    One kernel, which accesses pinned host memory over the bus.
    """
    if not len(pairs) or not sources:
        return
    sizes = [_block_bytes(*pools) for pools in zip(sources, targets, strict=True)]
    _check(pairs, min(map(len, sources)), min(map(len, targets)))
    addresses = [
        np.array([device.pointer(pool) for pool in pools], np.uint64) for pools in (sources, targets)
    ]
    packed = pack_arrays([*addresses, np.array(sizes, np.int64), np.ascontiguousarray(pairs, np.int32)])
    sent = packed.layout.split(device.upload(packed.bytes))
    device.launch("move_blocks", len(sources) * len(pairs), THREADS, *sent, np.int32(len(pairs)))


def _block_bytes(source: Array, target: Array) -> int:
    if source.shape[1:] != target.shape[1:] or source.dtype != target.dtype:
        raise ValueError(f"blocks differ: {source.dtype}{source.shape} and {target.dtype}{target.shape}")
    return int(np.prod(source.shape[1:], dtype=np.int64)) * int(source.dtype.itemsize)


def _check(pairs: Pairs, num_sources: int, num_targets: int) -> None:
    if pairs.min() < 0 or pairs[:, 0].max() >= num_sources or pairs[:, 1].max() >= num_targets:
        raise IndexError(f"a pair names no block: {num_sources} sources, {num_targets} targets")
