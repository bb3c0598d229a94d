"""Changes to single logits, in place: biases, bans, and what alone is allowed.

Entries come as flat pairs (row, id), so that rows may hold any number of them.  Knows nothing of why.
All arrays of logits are float32[num_rows, vocab], C-contiguous and writable; rows and ids are int64[k].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ops.contract import Floats, Index

_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
BOUNDS = np.where(_BITS == 1, np.float32(np.nan), np.float32(-np.inf))
"""What the 8 logits of a byte of a mask are at most: float32[256, 8].  To `fmin` NaN is no bound, and -inf is
one for NaN too; so a mask costs the same however many ids it allows."""


def flat_view(logits: Floats) -> Floats:
    """The same memory as one row; raises ValueError where that would need a copy, and so lose the change."""
    return logits.reshape(-1, copy=False)


def add_bias(logits: Floats, rows: Index, ids: Index, bias: Floats) -> None:
    """Add bias (float32[k]) at the pairs (row, id); a pair stands there at most once."""
    flat_view(logits)[rows * logits.shape[1] + ids] += bias


def ban(logits: Floats, rows: Index, ids: Index) -> None:
    """Make the pairs (row, id) impossible: -inf.  A pair may be repeated."""
    flat_view(logits)[rows * logits.shape[1] + ids] = -np.inf


def allow_only(logits: Floats, rows: Index, ids: Index) -> None:
    """In every row named in `rows`, make every id impossible that is not paired with it."""
    flat = flat_view(logits)
    at = rows * logits.shape[1] + ids
    kept = flat[at]
    logits[np.unique(rows)] = -np.inf
    flat[at] = kept


def apply_bitmask(logits: Floats, rows: Index, bits: NDArray[np.uint32]) -> None:
    """In row rows[i], make every id impossible whose bit is not set.

    bits: uint32[len(rows), ceil(vocab / 32)]; id t is bit t % 32 of word t // 32 (llguidance, xgrammar).
    """
    vocab = logits.shape[1]
    bounds = np.empty((bits.shape[1] * 4, 8), np.float32)
    for row, words in zip(rows.tolist(), bits, strict=True):
        np.take(BOUNDS, words.view(np.uint8), axis=0, out=bounds, mode="clip")
        np.fmin(logits[row], bounds.reshape(-1)[:vocab], out=logits[row])
