"""Changes of single logits in place: biases, banned ids, allowed ids and bitmasks.

Entries are pairs (row, id), so a row may have any number of them.  Logits are float32[num_rows, vocab],
C-contiguous and writable; rows and ids are int64[k].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ops.contract import Floats, Index

_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
BOUNDS = np.where(_BITS == 1, np.float32(np.nan), np.float32(-np.inf))
"""Upper bounds of the 8 logits of a byte of a mask: float32[256, 8].

To `fmin` NaN is no bound, and -inf is one for NaN too; so a mask has the same cost for any number of allowed
ids.
"""


def flat_view(logits: Floats) -> Floats:
    """Views the memory as one row; raises ValueError when that needs a copy, which would lose the change."""
    return logits.reshape(-1, copy=False)


def add_bias(logits: Floats, rows: Index, ids: Index, bias: Floats) -> None:
    """Add bias (float32[k]) at the pairs (row, id); each pair occurs at most once."""
    flat_view(logits)[rows * logits.shape[1] + ids] += bias


def ban(logits: Floats, rows: Index, ids: Index) -> None:
    """Set the pairs (row, id) to -inf.  A pair may be repeated."""
    flat_view(logits)[rows * logits.shape[1] + ids] = -np.inf


def allow_only(logits: Floats, rows: Index, ids: Index) -> None:
    """In every row of `rows`, set every id to -inf that is not paired with it."""
    flat = flat_view(logits)
    at = rows * logits.shape[1] + ids
    allowed = flat[at]
    logits[np.unique(rows)] = -np.inf
    flat[at] = allowed


def apply_bitmask(logits: Floats, rows: Index, bits: NDArray[np.uint32]) -> None:
    """In row rows[i], set every id to -inf whose bit is not set.

    bits: uint32[len(rows), ceil(vocab / 32)]; id t is bit t % 32 of word t // 32 (llguidance, xgrammar).
    """
    vocab = logits.shape[1]
    bounds = np.empty((bits.shape[1] * 4, 8), np.float32)
    for row, words in zip(rows.tolist(), bits, strict=True):
        np.take(BOUNDS, words.view(np.uint8), axis=0, out=bounds, mode="clip")
        np.fmin(logits[row], bounds.reshape(-1)[:vocab], out=logits[row])
