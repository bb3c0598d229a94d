"""Arithmetic on block tables: the slots of tokens in a paged cache, and copies of whole blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def slot_mapping(
    block_table: NDArray[np.int32],
    starts: NDArray[np.int32],
    positions: NDArray[np.int64],
    block_tokens: int,
) -> NDArray[np.int64]:
    """The cache slot of each packed token: int64[num_tokens], block * block_tokens + offset.

    Sequence i owns tokens starts[i]:starts[i+1] of positions int64[num_tokens]; starts: int32[num_seqs + 1].
    The token at position p of its context is in block block_table[i, p // block_tokens]; block_table:
    int32[num_seqs, columns].
    """
    owner = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    blocks = block_table[owner, positions // block_tokens].astype(np.int64)
    return blocks * block_tokens + positions % block_tokens


def copy_blocks(cache: NDArray[np.generic], copies: NDArray[np.int32]) -> None:
    """Copy whole blocks in place: cache[target] = cache[source].

    copies: int32[k, 2] of (source, target); cache: [num_blocks, ...] of any type.  No target is a source, so
    the order does not matter.
    """
    cache[copies[:, 1]] = cache[copies[:, 0]]
