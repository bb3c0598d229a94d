"""Converts a step to the inputs of a paged OpenVINO model, and builds the inputs of warm-up steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.backends.openvino.model.lm_head import LOGITS_INPUT
from pipelines.inference.contracts.step import Step

PLACEHOLDER_INDEX = np.zeros(1, np.int64)  # the head wants a row even when nothing is sampled
WARMUP_BATCHES = (1, 2, 3, 4, 5, 6, 8, 16, 32, 64)
"""Numbers of sequences in the decode steps that are run once before requests need them."""
MAX_WARMUP_TOKENS = 128
"""Tokens of the prompt in a warm-up step at most: a new request waits for its end."""

StepInputs = dict[str, NDArray[Any]]
"""Input name → contiguous array."""


def step_inputs(step: Step) -> StepInputs:
    """The inputs of the model for a step.  The arrays may share memory with the step's."""
    blocks, begins = flat_blocks(step.block_table, step.num_blocks)
    shifts = step.position_shifts
    return {
        "input_ids": step.token_ids,
        "position_ids": step.positions if shifts is None else step.positions + shifts,
        "past_lens": step.num_past,
        "subsequence_begins": step.starts,
        "block_indices": blocks,
        "block_indices_begins": begins,
        "max_context_len": np.array(step.max_context, np.int32),
        LOGITS_INPUT: step.logit_indices if step.num_logits else PLACEHOLDER_INDEX,
    }


def rounded_up(size: int) -> int:
    """The next number of tokens or rows that steps are given: every one to 32, then 16 for each doubling.

    OpenVINO compiles kernels for each number, which takes milliseconds and a megabyte.
    """
    step = 1 << max(0, (size - 1).bit_length() - 5)
    return size + -size % step


def padded(inputs: StepInputs, num_tokens: int, num_logits: int, block: int, block_tokens: int) -> StepInputs:
    """The inputs with that many tokens and rows of logits, neither less than before.

    The tokens are another sequence, behind the others, all of whose blocks are `block`; the last row is
    computed several times.
    """
    more = num_tokens - len(inputs["input_ids"])
    rows = inputs[LOGITS_INPUT]
    if len(rows) < num_logits:
        inputs = inputs | {LOGITS_INPUT: np.pad(rows, (0, num_logits - len(rows)), mode="edge")}
    if more == 0:
        return inputs
    filler = warmup_inputs(1, more, block, block_tokens)
    own = ("input_ids", "position_ids", "past_lens", "block_indices")
    begins = ("subsequence_begins", "block_indices_begins")
    return inputs | {
        **{name: np.concatenate([inputs[name], filler[name]]) for name in own},
        **{name: np.append(inputs[name], inputs[name][-1:] + filler[name][1:]) for name in begins},
        "max_context_len": np.array(max(inputs["max_context_len"], more), np.int32),
    }


def flat_blocks(
    table: NDArray[np.int32], num_blocks: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Block tables → all blocks in one row [sum(num_blocks)], each sequence's start in it [num_seqs + 1]."""
    if len(num_blocks) == 1:
        return table[0, : num_blocks[0]], np.array([0, num_blocks[0]], np.int32)
    begins = np.zeros(len(num_blocks) + 1, np.int32)
    np.cumsum(num_blocks, out=begins[1:])
    used = np.arange(table.shape[1]) < num_blocks[:, None]
    return table[used], begins


def warmup_inputs(num_seqs: int, num_tokens: int, block: int, block_tokens: int) -> StepInputs:
    """Inputs of `num_seqs` sequences with `num_tokens` new tokens each, all of whose blocks are `block`."""
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
    """(sequences, new tokens of each) of the most common steps, the widest last."""
    rows = sorted({min(rows, max_sequences) for rows in WARMUP_BATCHES})
    return [*((one, 1) for one in rows), (1, min(max_tokens, MAX_WARMUP_TOKENS))]
