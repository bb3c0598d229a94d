"""`SamplingOps` with numpy: the functions of this package under the names of the interface."""

from __future__ import annotations

import numpy as np

from ops.contract import Floats, Index, RowSampling
from ops.draft_verification import verify
from ops.logprobs import gather_logprobs, logprobs_of
from ops.masking import add_bias, allow_only, apply_bitmask, ban
from ops.penalties import penalise_presence_and_frequency, penalise_repetition
from ops.sampling import choose as choose_tokens
from ops.sampling import likeliest

__all__ = [
    "add_bias",
    "allow_only",
    "apply_bitmask",
    "ban",
    "choose",
    "fetch",
    "gather_logprobs",
    "likeliest",
    "logprobs_of",
    "penalise_presence_and_frequency",
    "penalise_repetition",
    "take",
    "writable",
]


def writable(logits: Floats) -> Floats:
    """Gives the logits as C-contiguous, writable float32[num_rows, vocab]; copies only when they were not."""
    return np.require(logits, np.float32, ["C", "W"])


def take(logits: Floats, rows: Index) -> Floats:
    """A copy of some rows: float32[len(rows), vocab]; rows: int64[k]."""
    return logits[rows]


def fetch(logits: Floats, rows: Index) -> Floats:
    """Does what `take` does: the logits are in host memory."""
    return logits[rows]


def choose(logits: Floats, rows: RowSampling, draft_tokens: Index | None = None) -> Index:
    """See `SamplingOps.choose`."""
    token_ids = choose_tokens(logits, rows)
    return token_ids if draft_tokens is None else verify(token_ids, draft_tokens)
