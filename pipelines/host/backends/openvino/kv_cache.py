"""The memory of the paged cache of an OpenVINO decoder: block sizes, allocation, copies of blocks."""

from __future__ import annotations

import math

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from pipelines.host.backends.device_errors import ModelError
from pipelines.host.backends.host_memory import PagePrefault, aligned_zeros
from pipelines.host.backends.openvino.paged_attention import CACHE_INPUT

TOKENS_AXIS = 1  # of a block


class OpenVINOCacheLayout:
    """The shape of a block in the compiled model: `[heads, tokens, head_size]` of keys and values of each
    layer.

    A quantized cache stores its scales in the block: one more row per group of keys, or more bytes per token
    of values.  Only values always have one row per token, so `block_tokens` is read from them.
    """

    def __init__(self, compiled: ov.CompiledModel) -> None:
        inputs = {port.any_name: port for port in compiled.inputs if CACHE_INPUT.fullmatch(port.any_name)}
        self.types = {name: port.get_element_type() for name, port in inputs.items()}
        self._block_shapes = {
            name: [size.get_length() for size in list(port.get_partial_shape())[1:]]
            for name, port in inputs.items()
        }
        self.block_tokens = self._block_tokens()
        self.bytes_per_input = {
            name: math.prod(self._block_shapes[name]) * self.types[name].bitwidth // 8 for name in inputs
        }
        self.block_bytes = sum(self.bytes_per_input.values())
        self.element_type = "/".join(sorted({one.to_string() for one in self.types.values()}))

    def shape(self, name: str, num_blocks: int) -> list[int]:
        """The shape of input `name` for a cache of `num_blocks`."""
        return [num_blocks, *self._block_shapes[name]]

    def _block_tokens(self) -> int:
        sizes = {shape[TOKENS_AXIS] for name, shape in self._block_shapes.items() if name.startswith("value")}
        if len(sizes) != 1:
            raise ModelError(f"Layers of this model want blocks of different sizes: {sorted(sizes)} tokens.")
        return int(sizes.pop())


class OpenVINOCache:
    """`num_blocks` blocks for every cache input, in host memory that this object owns.

    Pages are mapped at their first write, or before by `prefault_first` and `prefault_some`.
    """

    def __init__(self, layout: OpenVINOCacheLayout, num_blocks: int) -> None:
        self.bytes = {
            name: aligned_zeros(num_blocks * size).reshape(num_blocks, size)
            for name, size in layout.bytes_per_input.items()
        }
        self.tensors = {
            name: ov.Tensor(self.bytes[name].reshape(-1), layout.shape(name, num_blocks), layout.types[name])
            for name in self.bytes
        }
        self._unmapped = PagePrefault(list(self.bytes.values()))

    def prefault_first(self) -> None:
        """Map a first piece of every input: memory for the first blocks."""
        self._unmapped.prefault_some(len(self.bytes))

    def prefault_some(self) -> bool:
        """Map some more pages; return whether more are left."""
        return self._unmapped.prefault_some()

    def copy(self, pairs: NDArray[np.int32]) -> None:
        """Copy block `pairs[i, 0]` to block `pairs[i, 1]` in every layer; all reads precede the writes."""
        sources, targets = pairs[:, 0], pairs[:, 1]
        for view in self.bytes.values():
            view[targets] = view[sources]
