"""The paged cache in host memory that a lowered graph on ONNX Runtime reads and writes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from ops.cache_blocks import copy_blocks
from pipelines.inference.backends.block_bytes import joined, put_back
from pipelines.inference.backends.host_memory import aligned_zeros, prefault
from pipelines.inference.backends.onnxruntime.cpu.lowering import ELEMENT_TYPES
from pipelines.onnx_format.decoder_format import SIDES, AttentionLayer


class OnnxCpuCacheLayout:
    """The shape of a block: `[block_tokens, num_kv_heads, head_size]` for each (side, layer)."""

    def __init__(self, layers: Sequence[AttentionLayer], block_tokens: int, element_type: str) -> None:
        self.element_type = ELEMENT_TYPES[element_type]
        self.block_shapes = {
            (side, layer.layer): [block_tokens, layer.num_kv_heads, layer.head_size]
            for layer in layers
            for side in SIDES
        }
        self.bytes_of = {
            part: int(math.prod(shape) * self.element_type.itemsize)
            for part, shape in self.block_shapes.items()
        }
        self.block_bytes = sum(self.bytes_of.values())


class OnnxCpuCache:
    """`num_blocks` blocks of each side of each layer, in memory that this object owns."""

    def __init__(self, layout: OnnxCpuCacheLayout, num_blocks: int) -> None:
        self._layout = layout
        self._blocks = {
            part: aligned_zeros(num_blocks * size).reshape(num_blocks, size)
            for part, size in layout.bytes_of.items()
        }
        prefault(list(self._blocks.values()))

    def bind(self, binding: ort.IOBinding) -> None:
        """Bind the cache to the graph: each input and its output are the same memory."""
        element_type = int(self._layout.element_type)  # numpy has no bfloat16, so ONNX's number
        for (side, layer), blocks in self._blocks.items():
            shape = [len(blocks), *self._layout.block_shapes[side, layer]]
            where = ("cpu", 0, element_type, shape, blocks.ctypes.data)
            binding.bind_input(f"{side}_cache.{layer}", *where)
            binding.bind_output(f"{side}_cache_out.{layer}", *where)

    def copy(self, pairs: NDArray[np.int32]) -> None:
        """Copy block `pairs[i, 0]` to block `pairs[i, 1]` in every layer."""
        for blocks in self._blocks.values():
            copy_blocks(blocks, pairs)

    def read_block(self, block: int) -> NDArray[np.uint8]:
        """uint8[block_bytes]: a copy of a block, layer by layer."""
        return joined(blocks[block] for blocks in self._blocks.values())

    def write_block(self, block: int, content: NDArray[np.uint8]) -> None:
        """Replace a block by what `read_block` has given."""
        put_back(content, (blocks[block] for blocks in self._blocks.values()))

    def clear(self, numbers: NDArray[np.int32]) -> None:
        """Fill these blocks with zeros.

        A graph of standard operators reads whole blocks and gives unused entries a weight of zero.  That
        hides every number but nan and infinity, which would pass from one sequence to the next owner of its
        blocks.
        """
        for blocks in self._blocks.values():
            blocks[numbers] = 0
