"""Cross-attention as inputs of a paged OpenVINO model: each token is a sequence of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.backends.openvino.paging.cross_attention_cache import (
    FRAMES,
    LAST_FRAME,
    CrossAttentionCache,
)
from pipelines.inference.backends.openvino.paging.kv_cache import OpenVINOCache
from pipelines.inference.backends.openvino.paging.step_inputs import StepInputs, flat_blocks
from pipelines.inference.contracts.step import CrossAttention, Step

Ints = NDArray[np.int32]


class CrossAttentionInputs:
    """The inputs of the cross-attention over `memory`, whose last block is spare.

    OpenVINO's attention writes one new key for each query: here it is that of the sequence's last frame,
    which the cache has already.  So of every block the last frame's keys and values are stored here.
    """

    def __init__(self, writer: CrossAttentionCache, memory: OpenVINOCache, num_blocks: int) -> None:
        self._writer, self._memory = writer, memory
        self._last = np.zeros((num_blocks, writer.numbers), np.float32)

    def write(self, cross: CrossAttention) -> None:
        """Write keys and values of a step's new frames to their blocks."""
        blocks, last = self._writer.write(cross.new_states, cross.slots, self._memory)
        self._last[blocks] = last

    def warmup_inputs(self, num_tokens: int) -> StepInputs:
        """Every token attends to one frame in the spare block."""
        nothing = np.zeros(num_tokens, np.int32)
        return self._inputs(nothing, np.full((num_tokens, 1), len(self._last) - 1, np.int32), nothing + 1)

    def step_inputs(self, step: Step, num_tokens: int) -> StepInputs:
        """Every token of a step attends to the frames of its sequence; tokens behind them are padding."""
        cross = step.cross
        assert cross is not None
        more = num_tokens - step.num_tokens
        num_new = np.diff(step.starts)
        num_blocks = -(-cross.lengths // self._writer.block_tokens)
        table = np.pad(cross.table, ((0, 1), (0, 0)), constant_values=len(self._last) - 1)
        rows = np.repeat(np.arange(step.num_seqs + 1), np.append(num_new, more))
        past = np.append(cross.lengths - 1, 0).astype(np.int32)[rows]
        return self._inputs(past, table[rows], np.append(num_blocks, 1)[rows])

    def _inputs(self, past: Ints, table: Ints, num_blocks: Ints) -> StepInputs:
        """Tokens with `past` frames in the cache, and as a new one the last frame of their last block."""
        blocks, begins = flat_blocks(table, num_blocks.astype(np.int32))
        return {
            f"{FRAMES}past_lens": past,
            f"{FRAMES}subsequence_begins": np.arange(len(past) + 1, dtype=np.int32),
            f"{FRAMES}block_indices": blocks,
            f"{FRAMES}block_indices_begins": begins,
            f"{FRAMES}max_context_len": np.array(past.max() + 1, np.int32),
            LAST_FRAME: self._last[blocks[begins[1:] - 1]],
        }
