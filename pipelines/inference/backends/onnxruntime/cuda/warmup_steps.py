"""Builds the steps that measure memory and warm up a session, and the attention bounds of a bucket."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pipelines.adapters.weights import BASE
from pipelines.inference.backends.onnxruntime.cuda.cuda_graphs import GraphShape
from pipelines.inference.contracts.step import Step, no_pairs


def attention_bounds(shape: GraphShape, block_tokens: int) -> tuple[int, int, int]:
    """attention_metadata for every step of a bucket: (longest query, longest context, shortest maximum
    context).

    The longest context of a step fills more than half of its bucket's columns, or the step would be in a
    smaller bucket.  This lower bound lets kernels divide a long context among processors.
    """
    at_least = shape.columns // 2 * block_tokens + 1
    return 1, shape.columns * block_tokens, at_least


def largest_steps(
    max_tokens: int, max_sequences: int, max_scored: int, max_context: int, columns: int, adapter: int = BASE
) -> list[Step]:
    """The steps that need most memory beside the cache, over block 0 only, so that a cache of one block is
    enough.

    The last chunks of the longest prompts, sampled for all sequences and scored; and all sequences decoding
    at full length.  All have the adapter of the load number `adapter`.
    """
    num_prompts = -(-max_tokens // max_context)
    chunks = np.full(num_prompts, max_context)
    chunks[-1] = max_tokens - max_context * (num_prompts - 1)
    ones = np.ones(min(max_sequences, max_tokens), np.int64)
    steps = [
        _at_the_end(chunks, np.full(max_sequences + max_scored, max_tokens - 1), max_context, columns),
        _at_the_end(ones, np.arange(len(ones)), max_context, columns),
    ]
    if adapter == BASE:
        return steps
    return [replace(step, adapters=np.full(step.num_seqs, adapter, np.int32)) for step in steps]


def _at_the_end(num_new: Any, logit_indices: Any, max_context: int, columns: int) -> Step:
    """Each sequence's last `num_new` tokens of a context of `max_context`, all in block 0."""
    return _step(num_new, max_context - num_new, np.zeros((len(num_new), columns)), logit_indices)


def warmup_step(shape: GraphShape, scratch: int) -> Step:
    """A decode step of a bucket's batch in which every sequence is one token in the scratch block."""
    ones = np.ones(shape.batch, np.int64)
    return _step(ones, ones - 1, np.full((shape.batch, 1), scratch), np.arange(shape.batch))


def _step(num_new: Any, num_past: Any, table: Any, logit_indices: Any) -> Step:
    """Token 0 everywhere; no blocks are moved, and nothing is sampled: the step has no sampling slots."""
    starts = np.concatenate([[0], np.cumsum(num_new)])
    positions = np.arange(starts[-1]) + np.repeat(num_past - starts[:-1], num_new)
    return Step(
        token_ids=np.zeros(starts[-1], np.int64),
        positions=positions.astype(np.int64),
        starts=starts.astype(np.int32),
        num_past=num_past.astype(np.int32),
        block_table=table.astype(np.int32),
        num_blocks=np.full(len(num_new), table.shape[1], np.int32),
        max_context=int((num_past + num_new).max()),
        logit_indices=logit_indices.astype(np.int64),
        logit_slots=np.zeros(len(logit_indices), np.int32),
        copies=no_pairs(),
    )
