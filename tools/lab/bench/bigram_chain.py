"""The output of the benchmark's model, which is a bigram model: every token has one most probable successor.

So its text can be copied and drafted, as that of a trained model can.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

LOWEST_ID = 300
"""Ids below this are bytes of the model's tokenizer."""
NUM_SPECIAL = 8
"""Number of ids at the end that may be special tokens."""
SEED = 7


def ordinary(vocab_size: int) -> range:
    """The token ids that loads use."""
    return range(min(LOWEST_ID, vocab_size // 2), vocab_size - NUM_SPECIAL)


@cache
def successors(vocab_size: int) -> NDArray[np.int64]:
    """int64[vocab_size]: the token after each; the ordinary ids are one cycle, all others a second one."""
    rng = np.random.default_rng(SEED)
    after = np.empty(vocab_size, np.int64)
    usual = np.array(ordinary(vocab_size))
    for ids in (usual, np.setdiff1d(np.arange(vocab_size), usual)):
        cycle = rng.permutation(ids)
        after[cycle] = np.roll(cycle, -1)
    return after


@cache
def similar_successors(vocab_size: int, agreement: float) -> NDArray[np.int64]:
    """int64[vocab_size]: successors that are the same for a share of `agreement` of the ordinary ids.

    The other successors are arbitrary.
    """
    rng = np.random.default_rng(SEED + 1)
    after = successors(vocab_size).copy()
    usual = rng.permutation(ordinary(vocab_size))
    others = usual[: round(len(usual) * (1 - agreement))]
    after[others] = np.roll(after[others], 1)
    return after


def chain(vocab_size: int, start: int, num_tokens: int) -> list[int]:
    """`num_tokens` tokens from `start` on, each the successor of the one before."""
    after, token, tokens = successors(vocab_size), start, list[int]()
    for _ in range(num_tokens):
        tokens.append(token)
        token = int(after[token])
    return tokens
