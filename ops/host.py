"""`SamplingOps` over numpy arrays: the functions of this package under the contract's names."""

from __future__ import annotations

import numpy as np

from ops.contract import Floats, Index
from ops.logprobs import gather_logprobs, logprobs_of
from ops.masking import add_bias, allow_only, apply_bitmask, ban
from ops.penalties import penalise_presence_and_frequency, penalise_repetition
from ops.sampling import choose

__all__ = [
    "add_bias",
    "allow_only",
    "apply_bitmask",
    "ban",
    "choose",
    "fetch",
    "gather_logprobs",
    "logprobs_of",
    "penalise_presence_and_frequency",
    "penalise_repetition",
    "take",
    "writable",
]


def writable(logits: Floats) -> Floats:
    return np.require(logits, np.float32, ["C", "W"])


def take(logits: Floats, rows: Index) -> Floats:
    return logits[rows]


def fetch(logits: Floats, rows: Index) -> Floats:
    return logits[rows]
