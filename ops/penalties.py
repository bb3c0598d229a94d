"""Penalties on tokens that occurred before, in place.

Entries are pairs (row, id), each at most once.  Logits are float32[num_rows, vocab], C-contiguous and
writable; rows and ids are int64[k].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ops.contract import Floats, Index
from ops.masking import flat_view


def penalise_repetition(logits: Floats, rows: Index, ids: Index, penalty: NDArray[np.float32]) -> None:
    """Divide positive logits by the penalty (float32[k], > 0), multiply the others by it.

    Keskar et al., "CTRL", 2019, with the rule for negative logits of Hugging Face transformers and vLLM.
    """
    flat = flat_view(logits)
    at = rows * logits.shape[1] + ids
    seen = flat[at]
    flat[at] = np.where(seen > 0, seen / penalty, seen * penalty)


def penalise_presence_and_frequency(
    logits: Floats,
    rows: Index,
    ids: Index,
    counts: NDArray[np.float32],
    presence: NDArray[np.float32],
    frequency: NDArray[np.float32],
) -> None:
    """Subtract `counts * frequency`, then `presence` where counts > 0 (all float32[k]); OpenAI's rule."""
    flat = flat_view(logits)
    at = rows * logits.shape[1] + ids
    flat[at] = flat[at] - counts * frequency - np.where(counts > 0, presence, np.float32(0))
