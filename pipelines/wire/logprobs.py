"""Log-probabilities of tokens in ids, as the engine host sends them."""

from __future__ import annotations

from typing import NamedTuple


class TokenLogprobs(NamedTuple):
    """Log-probability of one chosen token and of its alternatives, best first (natural logarithm)."""

    logprob: float
    rank: int  # 1 for the likeliest token
    top_ids: list[int]
    top_logprobs: list[float]
