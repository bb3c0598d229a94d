"""Tracks which tokens a draft model has in its cache, and builds the steps that it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.contracts.step import Step, no_pairs, no_slots


class DraftCacheState:
    """How many of each block's first tokens the draft has computed, by block and by host block.

    The draft may skip steps: missing tokens are found here and can be computed later, even after a block has
    changed its owner. Tokens that a step overwrites count as not computed until the draft has written them;
    so do draft tokens that were not accepted, since the next step of their sequence overwrites them.
    """

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self._blocks = np.zeros(0, np.int32)
        self._host_blocks = np.zeros(0, np.int32)

    def start_step(self, step: Step) -> None:
        """Record that a step is about to run: its blocks move, its tokens and draft tokens are new."""
        reach = np.diff(step.starts)
        if step.draft_budget is not None and step.draft is None:
            reach = reach + step.draft_budget
        ends = np.cumsum(reach)
        places = np.arange(ends[-1]) + np.repeat(step.num_past - (ends - reach), reach)
        columns, offsets = np.divmod(places, self.block_tokens)
        blocks = step.block_table[np.repeat(np.arange(step.num_seqs), reach), columns]
        self._grow_to(step, int(blocks.max()))
        self._host_blocks[step.swaps_out[:, 1]] = self._blocks[step.swaps_out[:, 0]]
        self._blocks[step.swaps_in[:, 1]] = self._host_blocks[step.swaps_in[:, 0]]
        self._blocks[step.copies[:, 1]] = self._blocks[step.copies[:, 0]]
        np.minimum.at(self._blocks, blocks, offsets.astype(np.int32))

    def leave_out(self, step: Step) -> None:
        """Record that the draft skips the step: it moves no blocks."""
        self._host_blocks[step.swaps_out[:, 1]] = 0
        self._blocks[step.swaps_in[:, 1]] = 0
        self._blocks[step.copies[:, 1]] = 0

    def computed(self, step: Step) -> NDArray[np.int32]:
        """How many of each sequence's first tokens the draft has: int32[num_seqs], <= num_past."""
        columns = np.arange(step.block_table.shape[1])
        wanted = np.clip(step.num_past[:, None] - columns * self.block_tokens, 0, self.block_tokens)
        block_ids = self._blocks.take(step.block_table, mode="clip")
        short = block_ids < wanted
        first = np.where(short.any(axis=1), short.argmax(axis=1), step.block_table.shape[1])
        seqs = np.arange(step.num_seqs)
        partly = block_ids[seqs, np.minimum(first, len(columns) - 1)]
        at = np.where(first < len(columns), first * self.block_tokens + partly, step.num_past)
        return at.astype(np.int32)

    def write(self, step: Step) -> None:
        """The draft has run `step`."""
        owner = np.repeat(np.arange(step.num_seqs), np.diff(step.starts))
        columns, at = np.divmod(step.positions, self.block_tokens)
        self._blocks[step.block_table[owner, columns]] = at + 1  # ascending: the last of a block stays

    def _grow_to(self, step: Step, largest: int) -> None:
        """Grow the counts to the largest block number of the step."""
        blocks = [largest, *step.swaps_in[:, 1], *step.swaps_out[:, 0], *step.copies.reshape(-1)]
        self._blocks = _grown(self._blocks, max(blocks))
        hosted = max([-1, *step.swaps_out[:, 1], *step.swaps_in[:, 0]])
        self._host_blocks = _grown(self._host_blocks, hosted)


def _grown(counts: NDArray[np.int32], place: int) -> NDArray[np.int32]:
    return (
        counts if place < len(counts) else np.pad(counts, (0, max(place + 1, 2 * len(counts)) - len(counts)))
    )


@dataclass(frozen=True, slots=True)
class DraftInput:
    """The input of one run of a draft, for the sequences `seqs` of a step, at least one token each.

    Of sequence `seqs[i]` the next `counts[i]` of `token_ids` after its first `num_past[i]`; `asks[i]`:
    whether a draft token is wanted after them.
    """

    seqs: NDArray[np.int64]
    num_past: NDArray[np.int32]
    counts: NDArray[np.int32]
    token_ids: NDArray[np.int64]
    asks: NDArray[np.bool_]


def draft_step(step: Step, feed: DraftInput, block_tokens: int, moves: bool) -> Step:
    """The step that the draft runs: a logit row for each sequence that wants a draft token, in order.

    `moves`: whether blocks move before it, as before `step`.
    """
    counts = feed.counts
    starts = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=starts[1:])
    reach = feed.num_past + counts
    num_blocks = -(-reach // block_tokens)
    return replace(
        step,
        token_ids=feed.token_ids,
        positions=np.arange(starts[-1]) + np.repeat(feed.num_past - starts[:-1], counts),
        starts=starts,
        num_past=feed.num_past,
        block_table=step.block_table[feed.seqs, : num_blocks.max()],
        num_blocks=num_blocks,
        max_context=int(reach.max()),
        logit_indices=starts[1:][feed.asks].astype(np.int64) - 1,
        logit_slots=step.slots[feed.seqs[feed.asks]],
        copies=step.copies if moves else no_pairs(),
        swaps_out=step.swaps_out if moves else no_pairs(),
        swaps_in=step.swaps_in if moves else no_pairs(),
        slots=step.slots[feed.seqs],
        adapters=no_slots(),
        scored=None,
        states=None,
        draft_budget=None,
    )
