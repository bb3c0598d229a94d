"""The packed, ragged step: the one contract between the engine and every backend.

Knows token ids, blocks and rows; knows nothing of text, YAML, files or devices.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ops import numpy_ops
from ops.contract import SamplingOps
from pipelines.wire.logprobs import TokenLogprobs

if TYPE_CHECKING:
    from pipelines.host.engine.speculation.speculation_slots import SpeculationSlots
    from pipelines.host.sampling.sampling_slots import SamplingSlots


def no_pairs() -> NDArray[np.int32]:
    """int32[0, 2]: nothing to move."""
    return np.empty((0, 2), np.int32)


def no_ids() -> NDArray[np.int64]:
    """int64[0]: nothing to score."""
    return np.empty(0, np.int64)


def no_room() -> NDArray[np.int32]:
    """int32[0]: nothing may be drafted."""
    return np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Step:
    """What one model call computes: `num_seqs` sequences of 1 or more new tokens each, without padding.

    Sequence `i` owns tokens `starts[i]:starts[i+1]` of the packed arrays.  `num_past[i]` of its tokens are
    in the cache already; its keys and values go to blocks `block_table[i, :num_blocks[i]]`, so that
    `num_past[i] + starts[i+1] - starts[i] <= num_blocks[i] * block_tokens`.
    Logits are computed only for the packed positions `logits_at`, which ascend (one may stand there several
    times when a prompt is shared by n > 1 choices).  The first `num_sampled` rows of logits choose a token:
    row `j` for the persistent row `logits_rows[j]`.  The other `num_scored` score a token of a prompt each:
    how likely `scored_ids[j]` was, beside the `scored_tops[j]` likeliest.

    Whole blocks move before the model runs: all of `swaps_out`, then all of `swaps_in`, then all of `copies`.
    That order counts: what is swapped out makes room for the other moves and for the new tokens.  Apart from
    that, a target stands in no other pair; host blocks that are filled are not read.

    Where the body has a speculation node (`speculation` is there), up to `room[i]` tokens may be drafted to follow
    those of sequence `i`; their blocks are lent already.  `with_draft_tokens` adds them: then the sampled rows of
    a sequence are a run, one for its last own token and one for each draft token; row `j` has `ahead[j]` draft tokens
    before it, and `draft_tokens[j]` is the one that the token of row `j` must equal for row `j + 1` to count,
    NO_GUESS at the end of a run.
    """

    token_ids: NDArray[np.int64]  # [num_tokens]
    positions: NDArray[np.int64]  # [num_tokens]
    starts: NDArray[np.int32]  # [num_seqs + 1]
    num_past: NDArray[np.int32]  # [num_seqs]
    block_table: NDArray[np.int32]  # [num_seqs, columns]; entries from num_blocks[i] on are undefined
    num_blocks: NDArray[np.int32]  # [num_seqs]
    max_context: int  # max(num_past + new tokens)
    logits_at: NDArray[np.int64]  # [num_logits], positions in token_ids
    logits_rows: NDArray[np.int32]  # [num_sampled], persistent rows (index of SamplingRows)
    copies: NDArray[np.int32]  # [num_copies, 2]: (source, target) blocks
    sampling: SamplingSlots  # per-row sampling parameters and state; index with logits_rows
    swaps_out: NDArray[np.int32] = field(default_factory=no_pairs)  # [k, 2]: (block, host block)
    swaps_in: NDArray[np.int32] = field(default_factory=no_pairs)  # [k, 2]: (host block, block)
    scored_ids: NDArray[np.int64] = field(default_factory=no_ids)  # [num_scored]
    scored_tops: NDArray[np.int64] = field(default_factory=no_ids)  # [num_scored], at most the vocabulary
    speculation: SpeculationSlots | None = None  # None: nobody draft tokens
    rows: NDArray[np.int32] = field(default_factory=no_room)  # [num_seqs] with `speculation`: persistent rows
    room: NDArray[np.int32] = field(default_factory=no_room)  # [num_seqs] with `speculation`
    draft_tokens: NDArray[np.int64] | None = None  # [num_sampled]; None: nothing is drafted
    ahead: NDArray[np.int64] | None = None  # [num_sampled]
    draft_logprobs: list[TokenLogprobs | None] | None = (
        None  # [num_sampled]: the draft's own, of draft tokens[j]
    )

    @property
    def num_seqs(self) -> int:
        return len(self.num_past)

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_logits(self) -> int:
        return len(self.logits_at)

    @property
    def num_sampled(self) -> int:
        return len(self.logits_rows)

    @property
    def num_scored(self) -> int:
        return len(self.scored_ids)


class Masks(NamedTuple):
    """Which tokens some sampled rows may choose; in the others all."""

    rows: NDArray[np.int64]  # [k], rows of logits, ascending
    bits: NDArray[np.uint32]  # [k, ceil(vocab / 32)]; a set bit allows its id, the lowest bit the lowest id


@dataclass(frozen=True, slots=True)
class Logits:
    """What a model says about the next token: `values[j]` is for `step.logits_at[j]`.

    `values: float32[num_logits, vocab]`, writable: stages change the sampled rows in place.  It is a numpy
    array, or one on a device; `ops` is the arithmetic that works on it.
    """

    values: Any
    step: Step
    ops: SamplingOps = numpy_ops
    masks: Masks | None = None


@dataclass(frozen=True, slots=True)
class Sampled:
    """The chosen tokens of each sampled row, and log-probabilities for the rows that asked (else None).

    Where the step had draft tokens, a run of rows counts as one: it gives `num_tokens[k] >= 1` tokens, the draft tokens
    that were accepted and the token after them, of `num_drafted[k]` draft tokens.  `token_ids` holds the tokens of all
    runs one after another; `logprobs` and `draft_logprobs` go with them.  `scores` are of the scored rows.
    """

    token_ids: NDArray[np.int64]  # [num_sampled] of the step without draft tokens, or [sum(num_tokens)]
    logprobs: list[TokenLogprobs | None]  # one for each of token_ids, or empty when no row asked
    scores: list[TokenLogprobs] = field(default_factory=list)  # [num_scored]
    num_tokens: NDArray[np.int64] | None = None  # [num_runs]; None: nothing was drafted, one token a row
    num_drafted: NDArray[np.int64] | None = None  # [num_runs]
    draft_logprobs: list[TokenLogprobs | None] = field(default_factory=list)  # as logprobs, or empty
