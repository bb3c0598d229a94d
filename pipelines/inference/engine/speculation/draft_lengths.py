"""Decides how many draft tokens pay: acceptance rates, the cost of a larger step, the gain per token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.engine.speculation.step_cost import StepCost

SLOT_DECAY = 0.95
"""Weight of earlier observations of the same slot after a new one: about twenty count."""
POOL_DECAY = 0.998
"""… and of those of all slots: about five hundred."""
POOL_WEIGHT = 4.0
"""Observations of its own that weigh as much for a slot as what is known of all slots."""
PRIOR_WEIGHT = 8.0
"""Weight of the prior, in observations."""
LEAST_CHANCE = 0.02
LEAST_GAIN = 1.02
"""Draft tokens must make tokens cheaper by this factor: measured times are not exact."""

FEW_TOKENS = 8
BEYOND = 1.5
"""A step has at most this factor more tokens than the largest known one: the limit of extrapolation."""

Chances = NDArray[np.float64]


@dataclass(slots=True)
class Observed:
    """What a slot's owner has seen of each kind of draft tokens; old observations weigh less."""

    owner: int
    hits: list[float]
    tries: list[float]


class AcceptanceRate:
    """How often draft tokens are accepted, by slot and by kind (how strong the evidence was): 0 <= hits <=
    tries.

    A slot starts with the rates of all slots, or with the prior, and shifts to its own observations.  Plain
    numbers: after a step of a model each array operation takes several microseconds.
    """

    def __init__(self, prior: Sequence[float], shared: bool) -> None:
        """prior: what is supposed of each kind at first.  `shared`: slots learn from each other."""
        self._of_slots: dict[int, Observed] = {}
        self._shared = shared
        self._pool_hits = [rate * PRIOR_WEIGHT for rate in prior]
        self._pool_tries = [PRIOR_WEIGHT] * len(prior)

    def assign(self, slot: int, owner: int) -> None:
        """Forget what another owner of the slot has seen."""
        own = self._of_slots.get(slot)
        if own is None or own.owner != owner:
            kinds = len(self._pool_hits)
            self._of_slots[slot] = Observed(owner, [0.0] * kinds, [0.0] * kinds)

    def learn(self, slot: int, kind: int, hit: bool) -> None:
        """A draft token was accepted or not."""
        own = self._of_slots[slot]
        own.hits[kind] = own.hits[kind] * SLOT_DECAY + hit
        own.tries[kind] = own.tries[kind] * SLOT_DECAY + 1
        if self._shared:
            self._pool_hits[kind] = self._pool_hits[kind] * POOL_DECAY + hit
            self._pool_tries[kind] = self._pool_tries[kind] * POOL_DECAY + 1

    def pooled(self, kind: int) -> float:
        """How likely a draft token of a kind is accepted in a new slot."""
        return self._pool_hits[kind] / self._pool_tries[kind]

    def rate(self, slot: int, kind: int) -> float:
        """How likely a draft token is accepted, if those before it were."""
        own = self._of_slots[slot]
        return (own.hits[kind] + POOL_WEIGHT * self.pooled(kind)) / (own.tries[kind] + POOL_WEIGHT)


def draft_lengths(
    chances: Chances,
    num_tokens: int,
    num_decoding: int,
    cost: StepCost,
    draft_cost: StepCost | None = None,
    least_gain: float = LEAST_GAIN,
) -> NDArray[np.int64]:
    """How many draft tokens of each slot make output tokens cheapest: int64[num_rows].

    chances: float64[num_rows, depth], never rising along a slot: how likely draft token i and all before it
    are accepted; 0 where there is none.  The step has `num_tokens` without draft tokens, `num_decoding` of
    which give a token.  The likeliest draft tokens are taken first, as many as give the fewest seconds per
    expected token; of the step's seconds count those that decoding alone would take, and those that draft
    tokens add.
    `draft_cost` is of the model that draft tokens, which takes a step for each depth. Tokens must become
    cheaper by the factor `least_gain`.
    """
    num_slots, depth = chances.shape
    none = np.zeros(num_slots, np.int64)
    order = np.argsort(-chances.T.reshape(-1), kind="stable")  # of equal ones the first in their slots first
    order = order[: np.count_nonzero(chances >= LEAST_CHANCE)]
    alone_s = cost.seconds(num_decoding)
    if not len(order) or alone_s is None:
        return none
    if num_tokens == num_decoding and (untried := cost.untried(num_tokens)):
        return np.bincount(order[:untried] % num_slots, minlength=num_slots)
    with_s = cost.curve(num_tokens + np.arange(len(order) + 1))
    assert with_s is not None
    price_s = alone_s + with_s - with_s[0]
    if cost.change_s and num_tokens == num_decoding:
        price_s += cost.change_s * _num_changes(chances, order, num_tokens, cost.last)
    if draft_cost is not None:
        price_s += _draft_seconds(order // num_slots, depth, draft_cost)
    tokens = num_decoding + np.concatenate([[0], np.cumsum(chances.T.reshape(-1)[order])])
    worth = tokens / price_s
    totals = num_tokens + 1 + np.arange(len(order))
    worth[1:][totals > max(FEW_TOKENS, BEYOND * cost.largest)] = 0
    if num_tokens == num_decoding:
        worth[1:][~_is_round(totals)] = 0
    best = int(worth.argmax())
    if worth[best] < worth[0] * least_gain:
        return none
    return np.bincount(order[:best] % num_slots, minlength=num_slots)


def _num_changes(chances: Chances, order: NDArray[np.int64], num_tokens: int, last: int) -> Chances:
    """Expected changes of size for the first 0, 1, … of the draft tokens `order`: float64[len(order) + 1]."""
    sizes = num_tokens + np.arange(len(order) + 1)
    changes: Chances = np.where(sizes == last, 0.0, 1.0)
    changes[1:] += 1.0
    if len(chances) == 1:
        changes[1:] -= chances[0, order]
    return changes


def least_chance(
    num_drafts: int, num_tokens: int, num_decoding: int, cost: StepCost, least_gain: float = LEAST_GAIN
) -> float:
    """Draft tokens that are all less likely than this do not pay, for whatever number of them up to
    `num_drafts`; 0 while that is to be found out.
    """
    if not num_decoding or cost.seconds(num_decoding) is None:
        return 0.0
    if num_tokens == num_decoding and cost.untried(num_tokens):
        return 0.0
    change_s = cost.change_s if cost.last == num_tokens else 0.0
    return cost.once((num_drafts, num_tokens, num_decoding, least_gain, change_s), _least_chance)


def _least_chance(
    cost: StepCost, num_drafts: int, num_tokens: int, num_decoding: int, least_gain: float, change_s: float
) -> float:
    with_s = cost.curve(num_tokens + np.arange(num_drafts + 1))
    alone_s = cost.seconds(num_decoding)
    assert with_s is not None
    assert alone_s is not None
    dearer = 1 + (with_s[1:] - with_s[0] + change_s) / alone_s
    gains = (least_gain * dearer - 1) * num_decoding / np.arange(1, num_drafts + 1)
    return max(LEAST_CHANCE, float(gains.min()))


def worth_speculating(
    num_slots: int,
    num_tokens: int,
    num_decoding: int,
    cost: StepCost,
    draft_cost: StepCost | None = None,
) -> bool:
    """Whether draft tokens for `num_slots` slots would pay if all were accepted: otherwise drafting can be
    skipped.
    """
    sure = np.ones((num_slots, 1))
    return bool(draft_lengths(sure, num_tokens, num_decoding, cost, draft_cost).any())


def _is_round(nums_tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each number of tokens is a size that recurs: there are eight per doubling.

    Each new shape takes a session some time; that of every number between would be too much.
    """
    unit = 2 ** np.maximum(np.log2(nums_tokens).astype(np.int64) - 3, 0)
    round_ones: NDArray[np.bool_] = nums_tokens % unit == 0
    return round_ones


def _draft_seconds(depths: NDArray[np.int64], num_depths: int, cost: StepCost) -> Chances:
    """What a draft takes for the first 0, 1, … of the draft tokens of these depths."""
    taken = np.zeros((len(depths) + 1, num_depths), np.int64)
    np.cumsum(depths[:, None] == np.arange(num_depths), axis=0, out=taken[1:])
    found = cost.curve(taken)
    return np.zeros(len(taken)) if found is None else np.where(taken > 0, found, 0).sum(1)


class ExplorationBudget:
    """Seconds that may be spent on draft tokens to find out whether they pay: a small share of all time.

    Accepted tokens add what they saved.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._held_s = 0.0

    def earn(self, step_s: float, saved_s: float = 0.0) -> None:
        self._held_s += step_s * self._share + saved_s

    def pays(self, price_s: float) -> bool:
        """Whether there is enough for a try at this price; if so, it is spent."""
        enough = self._held_s >= price_s
        if enough:
            self._held_s -= price_s
        return enough
