"""Attention to the frames of an encoder as inputs of a paged OpenVINO model: each token is a sequence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipelines.host.backends.onnx.decoder_format import CONTEXT_FRAMES
from pipelines.host.backends.openvino.from_onnx import FRAMES
from pipelines.host.backends.openvino.step_inputs import StepInputs, flat_blocks
from pipelines.host.engine.step import Step

Ints = NDArray[np.int32]


class FrameInputs:
    """The inputs of the attention to frames, over a cache of `num_blocks` blocks; the last one is spare.

    OpenVINO's attention writes one new key for each query: here it is that of the sequence's last frame,
    which the cache has already.  So of every block the last frame is stored here.
    """

    def __init__(self, frame_size: int, num_blocks: int, block_tokens: int) -> None:
        self._last = np.zeros((num_blocks, frame_size), np.float32)
        self._block_tokens = block_tokens

    def warmup_inputs(self, num_tokens: int) -> StepInputs:
        """Every token attends to one frame in the spare block."""
        nothing = np.zeros(num_tokens, np.int32)
        spare = np.full((num_tokens, 1), len(self._last) - 1, np.int32)
        return self._inputs(nothing, np.ones(num_tokens, np.int32), spare, nothing + 1)

    def writing_inputs(self, step: Step, num_tokens: int) -> StepInputs:
        """The new frames of a step are written, before the tokens of a warm-up step.

        Each block is a sequence of its own, so that next to nothing is computed for the queries of frames.
        """
        blocks, counts = _runs(step.frame_slots // self._block_tokens)
        ends = np.cumsum(counts)
        self._last[blocks] = step.new_frames[ends - 1]
        spare = np.full(num_tokens, len(self._last) - 1, np.int32)
        inputs = self._inputs(
            np.zeros(len(blocks) + num_tokens, np.int32),
            np.append(counts, np.ones(num_tokens, np.int32)),
            np.append(blocks, spare)[:, None],
            np.ones(len(blocks) + num_tokens, np.int32),
        )
        own = np.zeros((num_tokens, self._last.shape[1]), np.float32)
        return inputs | {CONTEXT_FRAMES: np.concatenate([step.new_frames, own])[None]}

    def step_inputs(self, step: Step, num_tokens: int) -> StepInputs:
        """Every token of a step attends to the frames of its sequence; tokens behind them are padding."""
        more = num_tokens - step.num_tokens
        num_new = np.diff(step.starts)
        num_blocks = -(-step.num_frames // self._block_tokens)
        table = np.pad(step.frame_table, ((0, 1), (0, 0)), constant_values=len(self._last) - 1)
        rows = np.repeat(np.arange(step.num_seqs + 1), np.append(num_new, more))
        past = np.append(step.num_frames - 1, 0).astype(np.int32)[rows]
        return self._inputs(past, np.ones(num_tokens, np.int32), table[rows], np.append(num_blocks, 1)[rows])

    def _inputs(self, past: Ints, num_new: Ints, table: Ints, num_blocks: Ints) -> StepInputs:
        """Sequences with `past` frames in the cache, and as new ones the last frame of their last block."""
        blocks, begins = flat_blocks(table, num_blocks.astype(np.int32))
        starts = np.zeros(len(past) + 1, np.int32)
        np.cumsum(num_new, out=starts[1:])
        return {
            f"{FRAMES}past_lens": past,
            f"{FRAMES}subsequence_begins": starts,
            f"{FRAMES}block_indices": blocks,
            f"{FRAMES}block_indices_begins": begins,
            f"{FRAMES}max_context_len": np.array((past + num_new).max(), np.int32),
            CONTEXT_FRAMES: self._last[blocks[begins[1:] - 1]][None],
        }


def _runs(blocks: Ints) -> tuple[Ints, Ints]:
    """Each block once, in order, and how many frames in a row are in it."""
    begins = np.flatnonzero(np.append(True, np.diff(blocks) != 0))
    return blocks[begins], np.diff(np.append(begins, len(blocks))).astype(np.int32)
