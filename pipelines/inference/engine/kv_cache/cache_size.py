"""How many blocks a key-value cache has: what the device's memory and the graph's limits allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from pipelines.inference.contracts.model_shape import ModelShape
from pipelines.inference.engine.kv_cache.cache import NO_SWAPPING
from pipelines.inference.engine.sequences.policy import EngineSettings, blocks_for

GIB = 1 << 30
TOKENS_PER_STORED_STATE = 512
"""Tokens of the cache for each stored state, so that prompts find their prefixes again."""
MOST_OF_STORED_STATES = 4
"""States that are stored take at most the fourth part of the memory: those of Mamba 2 are as large as blocks
of thousands of tokens.
"""


class CachedSession(Protocol):
    """A loaded decoder, as far as the size of its cache depends on it."""

    @property
    def shape(self) -> ModelShape: ...

    @property
    def can_swap(self) -> bool: ...

    def reserve(self, max_tokens: int, max_sequences: int, max_scored: int = 0) -> int:
        """Bytes that are free for the cache."""


class CacheSize(NamedTuple):
    """What a cache holds: blocks of tokens, rows for recurrent states, and blocks of host memory.

    A model with recurrent states has at least two rows for each sequence: one to read in a step, one to
    write.  Host blocks store the cache of preempted sequences; without a free one it is computed again.
    """

    num_blocks: int
    num_states: int = 0
    num_host_blocks: int = 0


def device_cache(
    memory_gb: float | None, settings: EngineSettings, sessions: Sequence[CachedSession], max_context: int
) -> CacheSize:
    """What fits `memory_gb` (None: the free memory): blocks, no more than all slots together can use, and
    rows for the states that sequences and their draft tokens need, and for some that are stored.

    Raises ValueError where not one block fits.
    """
    block_bytes = sum(session.shape.block_bytes for session in sessions)
    state_bytes = sum(session.shape.state_bytes for session in sessions)
    limits = settings.max_step_tokens, settings.max_sequences, settings.max_scored_tokens
    free = min(session.reserve(*limits) for session in sessions)
    budget = free if memory_gb is None else int(memory_gb * GIB)
    block_tokens = sessions[-1].shape.block_tokens
    max_encoder_states = max(session.shape.max_encoder_states for session in sessions)
    columns = blocks_for(max_context, block_tokens) + blocks_for(max_encoder_states, block_tokens)
    useful = settings.max_sequences * columns
    num_states = 2 * settings.max_sequences + settings.num_draft_tokens if state_bytes else 0
    left = budget - num_states * state_bytes
    if state_bytes and settings.reuse_prefixes:
        num_tokens = max(0, min(left // block_bytes, useful)) * block_tokens
        num_stored = min(
            num_tokens // TOKENS_PER_STORED_STATE, max(0, left // MOST_OF_STORED_STATES) // state_bytes
        )
        num_states, left = num_states + num_stored, left - num_stored * state_bytes
    num_blocks = min(left // block_bytes, useful)
    if num_blocks < 1:
        raise ValueError(_too_small(budget, block_bytes, num_states * state_bytes))
    return CacheSize(num_blocks, num_states)


def _too_small(budget: int, block_bytes: int, state_bytes: int) -> str:
    states = f" beside {state_bytes} bytes for the states of max_sequences sequences" if state_bytes else ""
    advice = "; lower max_sequences" if state_bytes else ""
    return (
        f"cache.memory_gb: one block takes {block_bytes} bytes{states}, the cache may have {budget}{advice}"
    )


def host_blocks(swap_gb: float, sessions: Sequence[CachedSession]) -> int:
    """Blocks of host memory that preempted sequences can be moved to.  Raises ValueError."""
    swap_bytes = int(swap_gb * GIB)
    if swap_bytes and any(session.shape.state_bytes for session in sessions):
        raise ValueError(NO_SWAPPING)
    if swap_bytes and not all(session.can_swap for session in sessions):
        raise ValueError(
            "cache.swap_gb: this device's cache is in host memory already; increase memory_gb instead"
        )
    return swap_bytes // sum(session.shape.block_bytes for session in sessions)
