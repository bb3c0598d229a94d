"""A step as a paged model reads it, and steps that nobody asked for.

Knows the names of a paged model's inputs; knows nothing of devices or memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.host.backends.openvino.lm_head import LOGITS_INPUT
from pipelines.host.engine.step import Step

NO_LOGITS_AT = np.zeros(1, np.int64)  # the head wants a row even when nothing is sampled
COMMON_ROWS = (1, 2, 3, 4, 5, 6, 8, 16, 32, 64)
"""Tokens of the decode steps that are worth a try before somebody waits for one."""
MOST_IDLE_TOKENS = 128
"""Of a prompt in such a step: who comes meanwhile waits for its end."""

StepInputs = dict[str, NDArray[Any]]
"""Input name → contiguous array."""


def step_inputs(step: Step) -> StepInputs:
    blocks, begins = flat_blocks(step.block_table, step.num_blocks)
    return {
        "input_ids": step.token_ids,
        "position_ids": step.positions,
        "past_lens": step.num_past,
        "subsequence_begins": step.starts,
        "block_indices": blocks,
        "block_indices_begins": begins,
        "max_context_len": np.array(step.max_context, np.int32),
        LOGITS_INPUT: step.logit_indices if step.num_logits else NO_LOGITS_AT,
    }


def flat_blocks(
    table: NDArray[np.int32], num_blocks: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Rows of blocks → all blocks in one row [sum(num_blocks)] and each sequence's begin [num_seqs + 1]."""
    begins = np.zeros(len(num_blocks) + 1, np.int32)
    np.cumsum(num_blocks, out=begins[1:])
    used = np.arange(table.shape[1]) < num_blocks[:, None]
    return table[used], begins


def warmup_inputs(num_seqs: int, num_tokens: int, block: int, block_tokens: int) -> StepInputs:
    """`num_seqs` sequences of `num_tokens` new tokens each, all of whose blocks are `block`."""
    ids = np.zeros(num_seqs * num_tokens, np.int64)
    per_seq = -(-num_tokens // block_tokens)
    begins = np.arange(num_seqs + 1, dtype=np.int32)
    return {
        "input_ids": ids,
        "position_ids": np.tile(np.arange(num_tokens), num_seqs),
        "past_lens": np.zeros(num_seqs, np.int32),
        "subsequence_begins": begins * num_tokens,
        "block_indices": np.full(num_seqs * per_seq, block, np.int32),
        "block_indices_begins": begins * per_seq,
        "max_context_len": np.array(num_tokens, np.int32),
        LOGITS_INPUT: begins[1:].astype(np.int64) * num_tokens - 1,
    }


def warmup_shapes(max_tokens: int, max_sequences: int) -> list[tuple[int, int]]:
    """(sequences, new tokens of each) of steps that are likely, the widest last."""
    rows = sorted({min(rows, max_sequences) for rows in COMMON_ROWS})
    return [*((one, 1) for one in rows), (1, min(max_tokens, MOST_IDLE_TOKENS))]
