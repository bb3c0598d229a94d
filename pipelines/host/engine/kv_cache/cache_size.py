"""How many blocks a key-value cache has: what the device's memory and the graph's limits allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pipelines.host.engine.policy import EngineSettings, blocks_for

GIB = 1 << 30


class CachedSession(Protocol):
    """A loaded decoder, as far as the size of its cache depends on it."""

    @property
    def block_tokens(self) -> int: ...

    @property
    def block_bytes(self) -> int: ...

    @property
    def state_bytes(self) -> int: ...

    @property
    def can_swap(self) -> bool: ...

    def reserve(self, max_tokens: int, max_sequences: int, max_scored: int = 0) -> int:
        """Bytes that are free for the cache."""


def device_blocks(
    memory_gb: float | None, settings: EngineSettings, sessions: Sequence[CachedSession], max_context: int
) -> int:
    """Blocks that fit `memory_gb` (None: the free memory) beside the recurrent states of all slots, and no
    more than all slots together can use.

    Raises ValueError where not one fits.
    """
    block_bytes = sum(session.block_bytes for session in sessions)
    limits = settings.max_step_tokens, settings.max_sequences, settings.max_scored_tokens
    free = min(session.reserve(*limits) for session in sessions)
    budget = free if memory_gb is None else int(memory_gb * GIB)
    states = settings.max_sequences * sum(session.state_bytes for session in sessions)
    useful = settings.max_sequences * blocks_for(max_context, sessions[-1].block_tokens)
    num_blocks = min((budget - states) // block_bytes, useful)
    if num_blocks < 1:
        beside = f" beside {states} bytes of states of max_sequences sequences" if states else ""
        raise ValueError(
            f"cache.memory_gb: one block takes {block_bytes} bytes{beside}, the cache may have {budget}"
        )
    return num_blocks


def host_blocks(swap_gb: float, sessions: Sequence[CachedSession]) -> int:
    """Blocks of host memory that preempted sequences can be moved to.  Raises ValueError."""
    swap_bytes = int(swap_gb * GIB)
    if swap_bytes and not all(session.can_swap for session in sessions):
        raise ValueError(
            "cache.swap_gb: this device's cache is in host memory already; increase memory_gb instead"
        )
    return swap_bytes // sum(session.block_bytes for session in sessions)
