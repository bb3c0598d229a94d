"""llama.cpp's samplers that others do not have, each as a function of one row of logits.

Sources of the formulas: `src/llama-sampler.cpp` of llama.cpp; typical sampling: arXiv 2202.00666, mirostat:
arXiv 2007.14966.  Rows are float32[vocab]; ids that are impossible are -inf.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float32]
Ids = NDArray[np.int64]
SIGN = np.uint32(1 << 31)
"""The bit by which floats become integers of the same order, those below 0 being inverted."""
MAX_EXPONENT = 88.7228391
"""The logarithm of the largest float32."""
MOST_XTC_THRESHOLD = 0.5
"""Above it no two tokens can reach the threshold."""
NUM_ESTIMATED = 100
"""Mirostat 1 looks at this many of the likeliest tokens to estimate how fast probabilities fall."""


def possible(logits: Row) -> Ids:
    """The possible ids in their order."""
    return np.flatnonzero(logits > -np.inf)


def likeliest_first(logits: Row) -> Ids:
    """The possible ids, the likeliest first; equal ones in their order.

    Logit and id are sorted as one integer: a stable sort of floats takes three times as long.
    """
    bits = (0.0 - logits).view(np.uint32)
    keys = np.where(bits >> 31, ~bits, bits | SIGN).astype(np.uint64) << np.uint64(32)
    keys |= np.arange(len(logits), dtype=np.uint64)
    keys.sort()
    order = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    return order[: np.count_nonzero(logits > -np.inf)]


def probabilities(logits: Row, ids: Ids) -> NDArray[np.float64]:
    """The probabilities of some ids among each other, float64[len(ids)]."""
    values = logits[ids].astype(np.float64)
    weights = np.exp(values - values.max())
    return np.asarray(weights / weights.sum())


def within_sigma(logits: Row, ids: Ids, num_sigma: float) -> Ids:
    """The ids at most `num_sigma` standard deviations below the largest logit.  0 and less: all."""
    if num_sigma <= 0 or not len(ids):
        return ids
    values = logits[ids].astype(np.float64)
    near: Ids = ids[values >= values.max() - num_sigma * values.std()]
    return near


def typical(logits: Row, ids: Ids, mass: float) -> Ids:
    """The ids whose surprise is nearest to the entropy, with a probability of `mass` together; 1: all.

    `ids` are the likeliest first, and so is the result.
    """
    if mass >= 1 or not len(ids):
        return ids
    chances = probabilities(logits, ids)
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = -np.log(chances)
        entropy = -np.sum(np.where(chances > 0, chances * np.log(chances), 0.0))
    nearest = np.argsort(np.abs(surprise - entropy), kind="stable")
    beyond = np.flatnonzero(np.cumsum(chances[nearest]) > mass)
    size = beyond[0] + 1 if len(beyond) else len(ids)
    return ids[np.sort(nearest[:size])]


def nucleus(logits: Row, ids: Ids, top_p: float, min_p: float) -> Ids:
    """The likeliest ids that have `top_p` together; of them those with `min_p` times the largest chance."""
    chances = probabilities(logits, ids)
    if top_p < 1:
        beyond = np.flatnonzero(np.cumsum(chances) >= top_p)
        size = max(int(beyond[0]) + 1 if len(beyond) else len(ids), 1)
        ids, chances = ids[:size], chances[:size]
    return ids[chances >= min_p * chances[0]] if min_p > 0 else ids


def without_top_choices(logits: Row, ids: Ids, threshold: float) -> Ids:
    """XTC: of the ids that reach the threshold all but the least likely one are left out.

    `ids` are the likeliest first.
    """
    if threshold > MOST_XTC_THRESHOLD or len(ids) < 2:
        return ids
    num_above = int(np.count_nonzero(probabilities(logits, ids) >= threshold))
    return ids[max(num_above - 1, 0) :]


def repeat_lengths(history: Sequence[int], breakers: Collection[int], allowed: int) -> dict[int, int]:
    """DRY: how long a repetition becomes by each token that would go on with one, from `allowed` tokens on.

    A repetition does not reach across a breaker.
    """
    last = len(history) - 1
    limit = next((i for i in range(len(history)) if history[last - i] in breakers), len(history))
    longest: Counter[int] = Counter()
    for back, common in enumerate(_common_with_begin([*history][::-1])[1:], start=1):
        length, token = min(common, limit), history[last - back + 1]
        if length >= max(allowed, 1):
            longest[token] = max(longest[token], length)
    return dict(longest)


def _common_with_begin(tokens: Sequence[int]) -> list[int]:
    """How many tokens from each place on are those of the beginning: the Z-algorithm, in linear time."""
    common = [0] * len(tokens)
    left = right = 0
    for i in range(1, len(tokens)):
        length = min(right - i, common[i - left]) if i < right else 0
        while i + length < len(tokens) and tokens[length] == tokens[i + length]:
            length += 1
        common[i] = length
        if i + length > right:
            left, right = i, i + length
    return common


def dry_penalty(length: int, multiplier: float, base: float, allowed: int) -> float:
    """What is taken from the logit of a token that makes a repetition `length` tokens long."""
    exponent = float(length - allowed)
    if base > 1.000001:
        exponent = min(exponent, MAX_EXPONENT / float(np.log(base)))
    return float(multiplier * base**exponent)


def mirostat_1(chances: NDArray[np.float64], vocab_size: int, surprise: float) -> int:
    """How many of the likeliest tokens mirostat 1 leaves; `chances` are the likeliest first."""
    few = chances[:NUM_ESTIMATED]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(few[:-1] / few[1:])
    places = np.log((np.arange(len(ratios)) + 2.0) / (np.arange(len(ratios)) + 1.0))
    slope = np.sum(places * ratios) / np.sum(places * places) if len(ratios) else np.float64(1)
    rest = slope - 1
    with np.errstate(all="ignore"):  # equal chances have no slope, and a surprise may be any number
        shares = rest * np.exp2(np.float64(surprise)) / (1 - np.float64(vocab_size) ** -rest)
        number = shares ** (1 / slope) if rest else np.float64(vocab_size)
    return max(int(min(number, len(chances))), 1) if np.isfinite(number) else len(chances)


def mirostat_2(chances: NDArray[np.float64], surprise: float) -> int:
    """How many of the likeliest tokens are less surprising, in bits, than mirostat 2 allows; at least 1."""
    with np.errstate(divide="ignore"):
        above = np.flatnonzero(-np.log2(chances) > surprise)
    return max(int(above[0]), 1) if len(above) else len(chances)
