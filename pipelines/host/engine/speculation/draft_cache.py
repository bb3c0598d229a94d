"""What a draft model has computed of each block that it shares with its target, and the steps that it runs.

Knows steps and blocks; knows nothing of models, or of which draft tokens pay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pipelines.host.engine.step import Step, no_ids, no_pairs


class DraftCacheState:
    """How many of each block's first tokens the draft has computed, by block and by host block.

    The draft may leave steps out: what it missed is seen here and can be computed later, whoever has the
    block by then.  Tokens that a step writes anew count as not computed until the draft has written them;
    so do draft tokens that did not are accepted, for the next step of their sequence begins where they stand.
    """

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self._blocks = np.zeros(0, np.int32)
        self._host_blocks = np.zeros(0, np.int32)

    def start_step(self, step: Step) -> None:
        """A step is about to run: its blocks move, its tokens and what may be drafted behind them are new."""
        reach = np.diff(step.starts)
        if len(step.draft_budget) and step.draft_tokens is None:
            reach = reach + step.draft_budget
        ends = np.cumsum(reach)
        places = np.arange(ends[-1]) + np.repeat(step.num_past - (ends - reach), reach)
        columns, kept = np.divmod(places, self.block_tokens)
        blocks = step.block_table[np.repeat(np.arange(step.num_seqs), reach), columns]
        self._make_room(step, int(blocks.max()))
        self._host_blocks[step.swaps_out[:, 1]] = self._blocks[step.swaps_out[:, 0]]
        self._blocks[step.swaps_in[:, 1]] = self._host_blocks[step.swaps_in[:, 0]]
        self._blocks[step.copies[:, 1]] = self._blocks[step.copies[:, 0]]
        np.minimum.at(self._blocks, blocks, kept.astype(np.int32))

    def leave_out(self, step: Step) -> None:
        """The draft runs nothing of the step that began: what was to move stays behind."""
        self._host_blocks[step.swaps_out[:, 1]] = 0
        self._blocks[step.swaps_in[:, 1]] = 0
        self._blocks[step.copies[:, 1]] = 0

    def computed(self, step: Step) -> NDArray[np.int32]:
        """How many of each sequence's first tokens the draft has: int32[num_seqs], <= num_past."""
        columns = np.arange(step.block_table.shape[1])
        wanted = np.clip(step.num_past[:, None] - columns * self.block_tokens, 0, self.block_tokens)
        found = self._blocks.take(step.block_table, mode="clip")
        short = found < wanted
        first = np.where(short.any(axis=1), short.argmax(axis=1), step.block_table.shape[1])
        seqs = np.arange(step.num_seqs)
        partly = found[seqs, np.minimum(first, len(columns) - 1)]
        at = np.where(first < len(columns), first * self.block_tokens + partly, step.num_past)
        return at.astype(np.int32)

    def write(self, step: Step) -> None:
        """The draft has run `step`."""
        owner = np.repeat(np.arange(step.num_seqs), np.diff(step.starts))
        columns, at = np.divmod(step.positions, self.block_tokens)
        self._blocks[step.block_table[owner, columns]] = at + 1  # ascending: the last of a block stays

    def _make_room(self, step: Step, largest: int) -> None:
        """For blocks that were never heard of; those that are written or moved to are the first to be."""
        blocks = [largest, *step.swaps_in[:, 1], *step.swaps_out[:, 0], *step.copies.reshape(-1)]
        self._blocks = _reaching(self._blocks, max(blocks))
        hosted = max([-1, *step.swaps_out[:, 1], *step.swaps_in[:, 0]])
        self._host_blocks = _reaching(self._host_blocks, hosted)


def _reaching(counts: NDArray[np.int32], place: int) -> NDArray[np.int32]:
    return (
        counts if place < len(counts) else np.pad(counts, (0, max(place + 1, 2 * len(counts)) - len(counts)))
    )


@dataclass(frozen=True, slots=True)
class DraftInput:
    """What a draft computes for the sequences `seqs` of a step, one after another, at least one token each.

    Of sequence `seqs[i]` the next `counts[i]` of `token_ids` behind its first `num_past[i]`; `asks[i]` says
    whether a draft token is wanted then.
    """

    seqs: NDArray[np.int64]
    num_past: NDArray[np.int32]
    counts: NDArray[np.int32]
    token_ids: NDArray[np.int64]
    asks: NDArray[np.bool_]


def draft_step(step: Step, feed: DraftInput, block_tokens: int, moves: bool) -> Step:
    """The step that the draft runs: a row of logits for each sequence that asks, in order.

    `moves` says whether blocks move before it, as before `step`.
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
        scored_ids=no_ids(),
        scored_top_counts=no_ids(),
        slots=step.slots[feed.seqs],
        draft_budget=step.draft_budget[feed.seqs],
    )
