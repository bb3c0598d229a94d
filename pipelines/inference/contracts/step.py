"""The packed, ragged step: the one contract between the engine and every backend.  Arrays and counts only."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipelines.wire.logprobs import TokenLogprobs


def no_pairs() -> NDArray[np.int32]:
    """int32[0, 2]: no blocks to move."""
    return np.empty((0, 2), np.int32)


def no_slots() -> NDArray[np.int32]:
    """int32[0]: slots that no node reads, or no adapters."""
    return np.empty(0, np.int32)


NO_STATE = -1
"""The number in place of the row that a sequence without computed tokens would read."""
ONLY_LAST = 1 << 30
"""An interval of states that no sequence reaches; at 0 OpenVINO's operator for Mamba 2 would write none."""


@dataclass(frozen=True, slots=True)
class ScoredTokens:
    """Prompt tokens whose log-probabilities a step gives, each from the logits before it.

    The logit rows behind those that are sampled are theirs, in order.
    """

    ids: NDArray[np.int64]
    """int64[num_scored]: the token that each of these rows predicts."""
    top_counts: NDArray[np.int64]
    """int64[num_scored]: number of most likely tokens to report, at most the vocabulary size."""


@dataclass(frozen=True, slots=True)
class RecurrentStates:
    """The rows of recurrent states that a step reads and writes.

    The model reads the state of sequence `i` from row `table[i, 0]`, or begins with zeros where that is
    NO_STATE.  It writes states to the rows after it: after every `interval[i]` tokens, counted from the
    beginning of the sequence, and after the last one (`Step.num_state_writes`).  No row is written twice, or
    read by one sequence and written by another.
    """

    table: NDArray[np.int32]
    """int32[num_seqs, columns]: rows; columns that the step does not write to are undefined."""
    interval: NDArray[np.int32]
    """int32[num_seqs], tokens: ONLY_LAST where one state is written."""


@dataclass(frozen=True, slots=True)
class CrossAttention:
    """The hidden states of an encoder that sequences attend to, in blocks of the same cache.

    Those of sequence `i`, `lengths[i]` of them, are in the blocks `table[i]`, in order.  Before any token
    attends to them the step writes the keys and values of `new_states` to `slots`, whole contexts one after
    another.
    """

    table: NDArray[np.int32]
    """int32[num_seqs, columns]: blocks; columns after the last hidden state of a sequence are undefined."""
    lengths: NDArray[np.int32]
    """int32[num_seqs], hidden states: at least 1."""
    new_states: NDArray[np.float32]
    """float32[k, encoder_hidden_size]: hidden states whose keys and values the step writes; k may be 0."""
    slots: NDArray[np.int32]
    """int32[k]: where, as block * block_tokens + offset."""


@dataclass(frozen=True, slots=True)
class InputsEmbeds:
    """What the model reads instead of the embeddings of k >= 1 tokens, which stand for parts of images."""

    values: NDArray[np.float32]
    """float32[k, inputs_embeds_size]."""
    places: NDArray[np.int64]
    """int64[k], ascending: indices into `Step.token_ids`."""
    positions: NDArray[np.int64] | None = None
    """int64[axes, k]: time, row and column of these tokens (M-RoPE); None for a model of one axis."""


@dataclass(frozen=True, slots=True)
class DraftRows:
    """Draft tokens among the tokens of a step.

    The logit rows of a sequence are then a run: one row for its last own token and one for each draft token.
    `token_ids[j]` is the draft token after row `j`, accepted when the token chosen from row `j` equals it.
    """

    token_ids: NDArray[np.int64]
    """int64[num_sampled]: NO_DRAFT_TOKEN in the last row of a run."""
    offsets: NDArray[np.int64]
    """int64[num_sampled], tokens: draft tokens before each row in its run."""
    logprobs: list[TokenLogprobs | None] | None = None
    """[num_sampled]: the draft model's log-probability of token_ids[j], where requested."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one model call computes: `num_seqs` sequences of 1 or more new tokens each, without padding.

    Sequence `i` owns tokens `starts[i]:starts[i+1]` of the packed arrays.  `num_past[i]` of its tokens are
    in the cache already; its keys and values go to blocks `block_table[i, :num_blocks[i]]`, so that
    `num_past[i] + starts[i+1] - starts[i] <= num_blocks[i] * block_tokens`.

    Logits are computed only for the packed positions `logit_indices`, which ascend (a position occurs once
    for each of the n > 1 choices that share a prompt).  The first `num_sampled` logit rows choose a token:
    row `j` for the sequence in slot `logit_slots[j]`.  The other `num_scored` rows are those of `scored`.

    Whole blocks move before the model runs, in this order: all of `swaps_out`, all of `swaps_in`, all of
    `copies`.  Swapping out frees the blocks that the later moves and the new tokens are written to.
    Otherwise the target of a pair occurs in no other pair, and host blocks that are written are not read.

    A part that only some models or requests have is None for the others: `scored`, `states`, `cross`,
    `embeds`, `position_shifts`, `draft_budget`, `draft`.

    Where the body has a speculation node, up to `draft_budget[i]` draft tokens may follow the tokens of
    sequence `i`; their blocks are reserved already.  `with_draft_tokens` adds them, and then `draft` is set.
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
    slots: NDArray[np.int32] = field(default_factory=no_slots)
    """int32[num_seqs]: the slot of each sequence; the engine always sets it."""
    adapters: NDArray[np.int32] = field(default_factory=no_slots)
    """int32[num_seqs]: the load number of each sequence's LoRA adapter, BASE for those without; int32[0]
    where all are of the base.
    """
    scored: ScoredTokens | None = None
    """None where no prompt is scored."""
    states: RecurrentStates | None = None
    """None for a model without recurrent states."""
    cross: CrossAttention | None = None
    """None for a model without an encoder."""
    embeds: InputsEmbeds | None = None
    """None where no token stands for a part of an image."""
    position_shifts: NDArray[np.int64] | None = None
    """int64[num_tokens]: what a model of several position axes (M-RoPE) adds to `positions` of all tokens but
    those of `embeds`; None where all are 0.
    """
    draft_budget: NDArray[np.int32] | None = None
    """int32[num_seqs], tokens: most draft tokens per sequence; None where none is to be drafted."""
    draft: DraftRows | None = None
    """None where no token was drafted."""

    @property
    def num_state_writes(self) -> NDArray[np.int32]:
        """int32[num_seqs]: how many states of each sequence are written; of a step with `states`."""
        assert self.states is not None
        reach = self.num_past % self.states.interval + np.diff(self.starts)
        return np.asarray(-(-reach // self.states.interval), np.int32)

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
        return 0 if self.scored is None else len(self.scored.ids)


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
