"""How many blocks a key-value cache has: what a graph says of it, and what fits.

Knows bytes and blocks; knows nothing of who uses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from graphs.node import NodeConfig
from pipelines.host.engine.policy import EngineSettings, blocks_for

if TYPE_CHECKING:
    from pipelines.host.backends.decoder_contract import DecoderSession

GIB = 1 << 30


class CacheConfig(NodeConfig):
    """The paged key-value cache: a hard bound in bytes, taken at load."""

    memory_gb: float | None = Field(default=None, gt=0, description="GiB; default: from free memory")
    reuse_prefixes: bool = Field(default=True, description="keep blocks of finished prompts for reuse")
    swap_gb: float = Field(
        default=0, ge=0, description="GiB of host memory for preempted sequences of a GPU; else recomputed"
    )


def blocks_for_device(
    cache: CacheConfig, settings: EngineSettings, sessions: list[DecoderSession], max_context: int
) -> int:
    """Blocks that fit the cache's bytes, and no more than all rows together can use.

    Raises ValueError when not one fits.
    """
    block_bytes = sum(session.block_bytes for session in sessions)
    limits = settings.max_step_tokens, settings.max_sequences, settings.max_scored_tokens
    spare = min(session.reserve(*limits) for session in sessions)
    budget = spare if cache.memory_gb is None else int(cache.memory_gb * GIB)
    useful = settings.max_sequences * blocks_for(max_context, sessions[-1].block_tokens)
    num_blocks = min(budget // block_bytes, useful)
    if num_blocks < 1:
        raise ValueError(f"cache.memory_gb: one block takes {block_bytes} bytes, the cache may have {budget}")
    return num_blocks


def blocks_for_host(cache: CacheConfig, sessions: list[DecoderSession]) -> int:
    """Blocks of host memory that preempted sequences may be moved to."""
    swap_bytes = int(cache.swap_gb * GIB)
    if swap_bytes and not all(session.can_swap for session in sessions):
        raise ValueError(
            "cache.swap_gb: this device's cache lies in host memory already; give memory_gb more instead"
        )
    return swap_bytes // sum(session.block_bytes for session in sessions)
