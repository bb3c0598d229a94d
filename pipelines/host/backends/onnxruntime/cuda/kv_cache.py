"""A paged cache in a device's memory, and blocks of pinned host memory to swap to.

Knows shapes, bytes and which block moves where; knows nothing of sequences or of what a block holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ops.cuda import cache_blocks
from ops.cuda.device import Device
from pipelines.host.backends.onnx.decoder_format import SIDES, AttentionLayer
from pipelines.host.backends.onnxruntime.cuda.lowered_decoder import CacheElement
from pipelines.host.engine.step import Step

STORAGE: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.float32}
"""Bytes of an element → a type that arrays have; bfloat16 and float8 are ONNX Runtime's alone to know."""


class OnnxCudaCacheLayout:
    """What a block is: `[block_tokens, num_kv_heads, head_size]` of each side of each layer.

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
    """`num_blocks` blocks, and one more at index `scratch` that belongs to no sequence.

    Everything is zero at first: kernels multiply what lies behind a context's end by a weight of 0, and what
    the memory held before may be no number.
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

    def move(self, step: Step) -> None:
        """What the step wants moved before the model runs, in the order it wants; nothing is waited for."""
        pools = list(self.pools.values())
        if len(step.swaps_out):
            cache_blocks.swap_out(self._device, pools, self._host, step.swaps_out)
        if len(step.swaps_in):
            cache_blocks.swap_in(self._device, pools, self._host, step.swaps_in)
        if len(step.copies):
            cache_blocks.copy_blocks(self._device, pools, step.copies)
