"""The packed, ragged step: the one contract between the engine and every backend.  Arrays and counts only."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipelines.wire.logprobs import TokenLogprobs


def no_pairs() -> NDArray[np.int32]:
    """int32[0, 2]: no blocks to move."""
    return np.empty((0, 2), np.int32)


def no_ids() -> NDArray[np.int64]:
    """int64[0]: no tokens to score."""
    return np.empty(0, np.int64)


def no_slots() -> NDArray[np.int32]:
    """int32[0]: slots that no node reads, or no sequences to draft for."""
    return np.empty(0, np.int32)


def no_table() -> NDArray[np.int32]:
    """int32[0, 0]: no recurrent states."""
    return np.empty((0, 0), np.int32)


def no_axes() -> NDArray[np.int64]:
    """int64[0, 0]: no tokens with positions on several axes."""
    return np.empty((0, 0), np.int64)


def no_frames(frame_size: int = 0) -> NDArray[np.float32]:
    """float32[0, frame_size]: no frames to add to the cache."""
    return np.empty((0, frame_size), np.float32)


NO_STATE = -1
"""In place of the row that a sequence without computed tokens would read."""
ONLY_LAST = 1 << 30
"""A `state_interval` that no sequence reaches.  At 0 OpenVINO's operator for Mamba 2 would write no state."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one model call computes: `num_seqs` sequences of 1 or more new tokens each, without padding.

    Sequence `i` owns tokens `starts[i]:starts[i+1]` of the packed arrays.  `num_past[i]` of its tokens are
    in the cache already; its keys and values go to blocks `block_table[i, :num_blocks[i]]`, so that
    `num_past[i] + starts[i+1] - starts[i] <= num_blocks[i] * block_tokens`.

    Logits are computed only for the packed positions `logit_indices`, which ascend (a position occurs once
    for each of the n > 1 choices that share a prompt).  The first `num_sampled` logit rows choose a token:
    row `j` for the sequence in slot `logit_slots[j]`.  The other `num_scored` rows score one prompt token
    each: the log-probability of `scored_ids[j]`, and of the `scored_top_counts[j]` most likely tokens.

    Whole blocks move before the model runs, in this order: all of `swaps_out`, all of `swaps_in`, all of
    `copies`.  Swapping out frees the blocks that the later moves and the new tokens are written to.
    Otherwise the target of a pair occurs in no other pair, and host blocks that are written are not read.

    A model with recurrent states reads that of sequence `i` from row `state_table[i, 0]`, or begins with
    zeros where that is NO_STATE.  It writes states to the rows after it: after every `state_interval[i]`
    tokens, counted from the beginning of the sequence, and after the last one (`num_state_writes`).  No row
    is written twice, or read by one sequence and written by another.

    A model that attends to frames of an encoder finds those of sequence `i`, `num_frames[i]` of them, in
    blocks of the same cache: `frame_table[i]`, in order.  Before any token attends to them the step writes
    the keys and values of `new_frames` to the slots `frame_slots`, whole contexts one after another.

    Tokens that stand for a part of an image have `given_rows` instead of the embeddings of their ids.  A
    model that turns each token by several numbers (M-RoPE) takes those from `given_positions` for these
    tokens; for others all are the token's position with its part of `position_shifts` added.

    Where a sequence has an adapter, `adapters` has the load number of each one's, BASE for those without.

    Where the body has a speculation node, up to `draft_budget[i]` draft tokens may follow the tokens of
    sequence `i`; their blocks are reserved already.  `with_draft_tokens` adds them.  The logit rows of a
    sequence are then a run: one row for its last own token and one for each draft token.  `draft_offset[j]`
    is the number of draft tokens before row `j` in its run; `draft_tokens[j]` is the draft token after row
    `j`, accepted when the token chosen from row `j` equals it, or NO_DRAFT_TOKEN in the last row of a run.
    """

    token_ids: NDArray[np.int64]
    """int64[num_tokens]: the new tokens of all sequences."""
    positions: NDArray[np.int64]
    """int64[num_tokens]: position of each token in its sequence, from 0."""
    starts: NDArray[np.int32]
    """int32[num_seqs + 1]: index into `token_ids` of each sequence's first token; the last entry is
    num_tokens.
    """
    num_past: NDArray[np.int32]
    """int32[num_seqs], tokens: already in the cache."""
    block_table: NDArray[np.int32]
    """int32[num_seqs, columns], block numbers; entries from column num_blocks[i] on are undefined."""
    num_blocks: NDArray[np.int32]
    """int32[num_seqs], blocks: valid entries of each row of `block_table`."""
    max_context: int
    """Tokens: the maximum of num_past + new tokens over the sequences."""
    logit_indices: NDArray[np.int64]
    """int64[num_logits], ascending: indices into `token_ids` for which logits are computed."""
    logit_slots: NDArray[np.int32]
    """int32[num_sampled]: the slot of the sequence that each sampled logit row belongs to."""
    copies: NDArray[np.int32]
    """int32[num_copies, 2]: (source, target) block numbers."""
    swaps_out: NDArray[np.int32] = field(default_factory=no_pairs)
    """int32[k, 2]: (block, host block)."""
    swaps_in: NDArray[np.int32] = field(default_factory=no_pairs)
    """int32[k, 2]: (host block, block)."""
    scored_ids: NDArray[np.int64] = field(default_factory=no_ids)
    """int64[num_scored]: the prompt token that each scored logit row predicts."""
    scored_top_counts: NDArray[np.int64] = field(default_factory=no_ids)
    """int64[num_scored]: number of most likely tokens to report, at most the vocabulary size."""
    state_table: NDArray[np.int32] = field(default_factory=no_table)
    """int32[num_seqs, columns]: rows of recurrent states; int32[0, 0] for a model without them.  Columns that
    the step does not write to are undefined.
    """
    state_interval: NDArray[np.int32] = field(default_factory=no_slots)
    """int32[num_seqs], tokens: ONLY_LAST where one state is written; int32[0] without states."""
    frame_table: NDArray[np.int32] = field(default_factory=no_table)
    """int32[num_seqs, columns]: blocks of frames; int32[0, 0] for a model without them.  Columns after the
    last frame of a sequence are undefined.
    """
    num_frames: NDArray[np.int32] = field(default_factory=no_slots)
    """int32[num_seqs], frames: at least 1; int32[0] for a model without them."""
    new_frames: NDArray[np.float32] = field(default_factory=no_frames)
    """float32[k, frame_size]: frames whose keys and values the step writes."""
    frame_slots: NDArray[np.int32] = field(default_factory=no_slots)
    """int32[k]: where, as block * block_tokens + offset."""
    given_rows: NDArray[np.float32] = field(default_factory=no_frames)
    """float32[k, row_size]: what the model reads instead of the embeddings of k tokens."""
    given_places: NDArray[np.int64] = field(default_factory=no_ids)
    """int64[k], ascending: indices into `token_ids`."""
    given_positions: NDArray[np.int64] = field(default_factory=no_axes)
    """int64[axes, k]: time, row and column of the same tokens; int64[0, 0] for a model of one axis."""
    position_shifts: NDArray[np.int64] = field(default_factory=no_ids)
    """int64[num_tokens]; int64[0] where all are 0."""
    adapters: NDArray[np.int32] = field(default_factory=no_slots)
    """int32[num_seqs]: load numbers; int32[0] where all sequences are of the base."""
    slots: NDArray[np.int32] = field(default_factory=no_slots)
    """int32[num_seqs]: the slot of each sequence; the engine always sets it."""
    draft_budget: NDArray[np.int32] = field(default_factory=no_slots)
    """int32[num_seqs], tokens: most draft tokens per sequence; int32[0] without a speculation node."""
    draft_tokens: NDArray[np.int64] | None = None
    """int64[num_sampled]: token ids, or NO_DRAFT_TOKEN; None: the step has no draft tokens."""
    draft_offset: NDArray[np.int64] | None = None
    """int64[num_sampled], tokens: draft tokens before each row in its run; None: no draft tokens."""
    draft_logprobs: list[TokenLogprobs | None] | None = None
    """[num_sampled]: the draft model's log-probability of draft_tokens[j], where requested."""

    @property
    def num_state_writes(self) -> NDArray[np.int32]:
        """int32[num_seqs]: how many states of each sequence are written."""
        reach = self.num_past % self.state_interval + np.diff(self.starts)
        return np.asarray(-(-reach // self.state_interval), np.int32)

    @property
    def num_seqs(self) -> int:
        return len(self.num_past)

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_logits(self) -> int:
        return len(self.logit_indices)

    @property
    def num_sampled(self) -> int:
        return len(self.logit_slots)

    @property
    def num_scored(self) -> int:
        return len(self.scored_ids)


@dataclass(frozen=True, slots=True)
class Sampled:
    """The result of a step: the chosen tokens, and log-probabilities for the requests that want them.

    Without draft tokens there is one token for each sampled logit row.  With draft tokens a run of rows
    counts as one: it gives `num_tokens[k] >= 1` tokens, the accepted ones of its `num_drafted[k]` draft
    tokens and the token after them.
    """

    token_ids: NDArray[np.int64]
    """int64[num_sampled], or int64[sum(num_tokens)]: the tokens of all runs, one run after another."""
    logprobs: list[TokenLogprobs | None]
    """One for each of `token_ids`, None where not requested; or [] when no request wants any."""
    scores: list[TokenLogprobs] = field(default_factory=list)
    """[num_scored]: of the scored logit rows."""
    num_tokens: NDArray[np.int64] | None = None
    """int64[num_runs], tokens; None: the step has no draft tokens, one token for each row."""
    num_drafted: NDArray[np.int64] | None = None
    """int64[num_runs], tokens; None when `num_tokens` is None."""
    draft_logprobs: list[TokenLogprobs | None] = field(default_factory=list)
    """The draft model's own, one for each of `token_ids`, or []."""
