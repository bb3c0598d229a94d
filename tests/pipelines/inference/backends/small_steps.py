"""Steps made from numbers alone, as an engine would pack them."""

from __future__ import annotations

import numpy as np

from pipelines.inference.contracts.step import Step

BLOCK = 16


def make_step(sequences: list[tuple[int, int]], samples: list[int]) -> Step:
    """A step of (past, new) tokens; sequence i gives `samples[i]` rows of logits at its last token."""
    past = np.array([count for count, _ in sequences], np.int32)
    new = np.array([count for _, count in sequences], np.int32)
    starts = np.concatenate([[0], np.cumsum(new)]).astype(np.int32)
    num_blocks = (-(-(past + new) // BLOCK)).astype(np.int32)
    at = np.repeat(starts[1:] - 1, samples).astype(np.int64)
    return Step(
        token_ids=np.arange(starts[-1], dtype=np.int64),
        positions=np.arange(starts[-1], dtype=np.int64) + np.repeat(past - starts[:-1], new),
        starts=starts,
        num_past=past,
        block_table=np.arange(len(past) * num_blocks.max(), dtype=np.int32).reshape(len(past), -1),
        num_blocks=num_blocks,
        max_context=int((past + new).max()),
        logit_indices=at,
        logit_slots=np.arange(len(at), dtype=np.int32),
        copies=np.array([[1, 2]], np.int32),
    )
