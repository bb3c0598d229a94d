"""The memory of the paged cache of an OpenVINO decoder: a row of its tables is a block."""

from __future__ import annotations

import openvino as ov

from pipelines.inference.backends.host_memory import prefault
from pipelines.inference.backends.openvino.paging.input_tables import InputTables, TableLayout
from pipelines.inference.backends.openvino.paging.paged_attention import CACHE_INPUT
from pipelines.inference.contracts.device_errors import ModelError

TOKENS_AXIS = 1  # of a block


class OpenVINOCacheLayout(TableLayout):
    """A block in the compiled model: `[heads, tokens, head_size]` of keys and values of each layer.

    A quantized cache stores its scales in the block: one more row per group of keys, or more bytes per token
    of values.  Only values always have one row per token, so `block_tokens` is read from them.
    """

    def __init__(self, compiled: ov.CompiledModel) -> None:
        super().__init__(compiled, CACHE_INPUT)
        self.block_tokens = self._block_tokens()
        self.element_type = "/".join(sorted({one.to_string() for one in self.types.values()}))

    def _block_tokens(self) -> int:
        sizes = {shape[TOKENS_AXIS] for name, shape in self.row_shapes.items() if name.startswith("value")}
        if len(sizes) != 1:
            raise ModelError(f"Layers of this model want blocks of different sizes: {sorted(sizes)} tokens.")
        return int(sizes.pop())


class OpenVINOCache(InputTables):
    """The blocks of a cache; `prefault` maps the pages of the first ones before their first write."""

    def prefault(self) -> None:
        prefault(list(self.bytes.values()))
