"""Scheduling rules on integers: the settings, the token budget, admission, draft budget, swapping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_SCORED_TOKENS = 128
"""Each needs a logit row of 4 bytes for each token of the vocabulary: 78 MB for 152,000."""

BACKGROUND_PART = 4
"""Background sequences get at most a step divided by this, or a token each."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Limits of one engine: 1 <= max_sequences < max_step_tokens, 1 <= max_scored_tokens, 0 <=
    num_draft_tokens.

    `max_sequences` choices run at the same time; a step computes at most `max_step_tokens` tokens and scores
    at most `max_scored_tokens` of prompts and of draft tokens, each with a logit row.  Prompts make a step in
    which others decode take about `max_step_s` seconds at most; 0: as long as its tokens take.  Of
    a decoding sequence `num_draft_tokens` tokens may be drafted, or fewer where its request limits them; 0:
    no speculation.  Raises ValueError for limits under which a prompt could wait indefinitely.
    """

    max_sequences: int = 64
    max_step_tokens: int = 1024
    reuse_prefixes: bool = True
    max_scored_tokens: int = MAX_SCORED_TOKENS
    num_draft_tokens: int = 0
    max_step_s: float = 0.0

    def __post_init__(self) -> None:
        if self.max_sequences < 1:
            raise ValueError(f"max_sequences must be at least 1, not {self.max_sequences}")
        if self.max_step_tokens <= self.max_sequences:
            raise ValueError(
                f"max_step_tokens ({self.max_step_tokens}) must be greater than max_sequences "
                f"({self.max_sequences}): each decoding sequence takes one token of a step and prompts need "
                f"the rest; {max(2 * self.max_sequences, 256)} would do"
            )
        if self.max_scored_tokens < 1:
            raise ValueError(f"max_scored_tokens must be at least 1, not {self.max_scored_tokens}")

    @property
    def max_background_tokens(self) -> int:
        """Most tokens of background sequences in a step, however short a step is."""
        return max(self.max_sequences, self.max_step_tokens // BACKGROUND_PART)

    @property
    def max_uncut(self) -> int:
        """Tokens that the first prompt in turn gets in every step, however many sequences decode and whatever
        another tenant claims.
        """
        return (self.max_step_tokens - self.max_sequences) // 2


MIN_SWAP_TOKENS = 16
"""Below this many tokens, starting two transfers costs more than computing again."""


def blocks_for(num_tokens: int, block_tokens: int) -> int:
    """Blocks that hold `num_tokens` tokens."""
    return -(-num_tokens // block_tokens)


def split_budget(pending: Sequence[int], budget: int) -> list[int]:
    """Tokens that each sequence gets in a step of at most `budget` tokens; `pending` is in queue order.

    A decoding sequence (1 pending) always gets its token, so no prompt ever delays it; what is left goes
    to the first prompts, as much as each can take.  Needs `pending.count(1) <= budget`.
    """
    num_decoding = pending.count(1)
    if num_decoding == len(pending):
        return list(pending)
    spare = budget - num_decoding
    counts = []
    for wanted in pending:
        count = 1 if wanted == 1 else min(wanted, spare)
        spare -= 0 if wanted == 1 else count
        counts.append(count)
    return counts


def share_draft_budget(
    wanted: Sequence[int], ends: Sequence[int], block_tokens: int, tokens: int, blocks: int
) -> list[int]:
    """Tokens that may be drafted after each decoding sequence, in queue order.

    Sequence i wants `wanted[i]` behind its `ends[i]` computed tokens.  All together take at most `tokens`
    of the step and `blocks` free blocks; a sequence without a new block may still fill its last one.
    """
    rooms = []
    for most, end in zip(wanted, ends, strict=True):
        most = min(most, tokens)
        owned = blocks_for(end, block_tokens)
        needed = blocks_for(end + most, block_tokens) - owned
        if needed > blocks:
            most, needed = min(most, (owned + blocks) * block_tokens - end), blocks
        tokens -= most
        blocks -= needed
        rooms.append(most)
    return rooms


def may_admit(needed: int, reserved: int, num_running: int, free: int) -> bool:
    """Whether a waiting sequence that needs `needed` more blocks for all its tokens may start to run.

    `reserved` blocks go to the pending tokens of running sequences, and each of them is left one more, for
    its next block or its copy of a shared one; beams that rest are not counted, for they grow when all have
    room. So an admission never preempts in its own step and rarely soon
    after, and a lone sequence always may (`submit` refused what exceeds the cache).
    """
    return needed + reserved + num_running <= free


def may_swap_out(num_tokens: int, num_blocks: int, free: int) -> bool:
    """Whether `num_tokens` computed tokens go to `num_blocks` of the `free` host blocks, or are given up.

    Moving a token there and back costs its keys and values over the bus twice, computing it again two
    operations per parameter: about 10 against 40 us for 8 billion parameters in 16 bits on a data-centre GPU
    (128 KiB a token, 25 GB/s, 400 TFLOP/s), and more on smaller devices.  Besides, tokens computed again
    take their share of a step from prompts.  So only what is too short to be worth a transfer is given up.
    """
    return num_tokens >= MIN_SWAP_TOKENS and num_blocks <= free
