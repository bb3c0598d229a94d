"""Arithmetic on block tables: where in a paged cache a token lies.

Functions on arrays; knows nothing of sequences, steps or backends.
"""

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

    Sequence i owns tokens starts[i]:starts[i+1]; the token at position p of its context lies in block
    block_table[i, p // block_tokens].
    """
    owner = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    blocks = block_table[owner, positions // block_tokens].astype(np.int64)
    return blocks * block_tokens + positions % block_tokens


def copy_blocks(cache: NDArray[np.generic], copies: NDArray[np.int32]) -> None:
    """Copy whole blocks in place: cache[target] = cache[source] for rows (source, target) of `copies`.

    No target is a source, so the order does not matter.  `cache: [num_blocks, ...]`.
    """
    cache[copies[:, 1]] = cache[copies[:, 0]]
