"""The paged cache in the memory of a GPU, and pinned host memory for swapped blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.cuda import cache_blocks
from ops.cuda.device import Device
from pipelines.inference.backends.block_bytes import joined, put_back
from pipelines.inference.backends.onnxruntime.cuda.lowered_decoder import CacheElement
from pipelines.inference.contracts.step import Step
from pipelines.onnx_format.decoder_format import SIDES, AttentionLayer

STORAGE: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.float32}
"""Bytes of an element → the array type that stores it; numpy lacks bfloat16 and float8."""


class OnnxCudaCacheLayout:
    """The shape of a block: `[block_tokens, num_kv_heads, head_size]` for each side of each layer.

    `shapes` are by the name of the graph's input.  `block_bytes` is one block over all of them.
    """

    def __init__(self, layers: Sequence[AttentionLayer], block_tokens: int, element: CacheElement) -> None:
        self.block_tokens = block_tokens
        self.element = element
        self.shapes = {
            f"{side}_cache.{layer.layer}": (block_tokens, layer.num_kv_heads, layer.head_size)
            for layer in layers
            for side in SIDES
        }
        self.storage = np.dtype(STORAGE[element.num_bytes])
        self.block_bytes = sum(math.prod(shape) for shape in self.shapes.values()) * self.storage.itemsize


class OnnxCudaCache:
    """`num_blocks` blocks, and one more at index `scratch` that no sequence uses.

    The memory is zero at first: kernels multiply entries after a context's end by a weight of 0, which does
    not hide a nan.
    """

    def __init__(
        self, device: Device, layout: OnnxCudaCacheLayout, num_blocks: int, num_host_blocks: int = 0
    ) -> None:
        self._device = device
        self.element = layout.element
        self.scratch = num_blocks
        self.pools = {
            name: device.zeros((num_blocks + 1, *shape), layout.storage)
            for name, shape in layout.shapes.items()
        }
        self._host = [
            device.pinned((num_host_blocks, *shape), layout.storage)
            for shape in layout.shapes.values()
            if num_host_blocks
        ]

    @cached_property
    def _one(self) -> list[NDArray[Any]]:
        """Pinned memory for one block, by pool."""
        return [self._device.pinned((1, *pool.shape[1:]), pool.dtype) for pool in self.pools.values()]

    def read_block(self, block: int) -> NDArray[np.uint8]:
        """uint8[block_bytes]: a copy of a block, pool by pool; waits for the device."""
        cache_blocks.swap_out(self._device, [*self.pools.values()], self._one, _pair(block, 0))
        self._device.synchronize()
        return joined(self._one)

    def write_block(self, block: int, content: NDArray[np.uint8]) -> None:
        """Replace a block by what `read_block` has given; waits for the device."""
        put_back(content, self._one)
        cache_blocks.swap_in(self._device, [*self.pools.values()], self._one, _pair(0, block))
        self._device.synchronize()

    def move(self, step: Step) -> None:
        """Start the moves of blocks that precede the step's computation, in their order; does not wait."""
        pools = list(self.pools.values())
        if len(step.swaps_out):
            cache_blocks.swap_out(self._device, pools, self._host, step.swaps_out)
        if len(step.swaps_in):
            cache_blocks.swap_in(self._device, pools, self._host, step.swaps_in)
        if len(step.copies):
            cache_blocks.copy_blocks(self._device, pools, step.copies)


def _pair(source: int, target: int) -> NDArray[np.int32]:
    return np.array([[source, target]], np.int32)
