"""Which rows a draft guesses for, and how far ahead: as far as pays, and now and then a try whether it would.

Knows rows, counts and seconds; knows nothing of models, caches or how guesses are chosen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.host.engine.speculation.draft_lengths import Acceptance, Purse, counts_that_pay, sure_ones_pay
from pipelines.host.engine.speculation.step_cost import StepCost
from pipelines.host.engine.step import Step
from pipelines.nodes.generation.body.draft_choice import Guesses

PRIOR = np.array([0.7])
TRIES_SHARE = 0.015
"""Of all time, what tries may take that turn out in vain."""
KIND = 0
"""Guesses of a draft are all of one kind."""


class Guessed(NamedTuple):
    """What was guessed to follow the first `begin` tokens of a row's owner."""

    owner: int
    begin: int
    ids: list[int]
    tried: bool


class DraftPolicy:
    """`cost` is what the draft's own steps take."""

    def __init__(self, num_guesses: int, adaptive: bool, cost: StepCost) -> None:
        self._num_guesses, self._adaptive, self._cost = num_guesses, adaptive, cost
        self._acceptance = Acceptance(0, PRIOR)
        self._guessed: dict[int, Guessed] = {}
        self._purse = Purse(TRIES_SHARE)
        self._tries = False

    def counts(
        self, step: Step, computed: NDArray[np.int32], longest: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """How many guesses each sequence wants now: int64[num_seqs], at most `longest[i]` and its room.

        computed: int32[num_seqs], tokens that the draft has in its cache.
        """
        assert step.guessing is not None
        self._learn(step)
        limits = np.minimum(step.room, longest).astype(np.int64)
        seqs = np.flatnonzero(limits)
        counts = np.zeros(step.num_seqs, np.int64)
        if not self._adaptive or not len(seqs):
            return limits
        cost = step.guessing.cost
        rows = step.rows[seqs]
        self._acceptance.begin(rows, step.guessing.owner[rows])
        self._purse.earn(cost.seconds(step.num_tokens) or 0.0)
        self._tries = False
        if step.num_tokens == step.num_sampled and cost.is_stale(step.num_tokens):
            return counts
        chances = self._chances(self._acceptance.rates(rows)[:, KIND], limits[seqs])
        counts[seqs] = counts_that_pay(chances, step.num_tokens, step.num_sampled, cost, self._cost)
        if not counts.any() and sure_ones_pay(len(seqs), step.num_tokens, step.num_sampled, cost, self._cost):
            self._try_one(step, computed, seqs, counts)
        return counts

    def wants_prompts(self, step: Step) -> bool:
        """Whether a new sequence would guess at this load: then the draft computes its prompt at once."""
        assert step.guessing is not None
        cost, num_rows = step.guessing.cost, max(1, int(np.count_nonzero(step.room)))
        if not self._adaptive or cost.seconds(num_rows) is None:
            return True
        usual = np.repeat(self._acceptance.usual[KIND], num_rows)
        chances = self._chances(usual, np.full(num_rows, self._num_guesses))
        return bool(counts_that_pay(chances, num_rows, num_rows, cost, self._cost).any())

    def remember(self, step: Step, guesses: Guesses) -> None:
        """What was guessed for the step, to be compared with what came when the next one begins."""
        assert step.guessing is not None
        owner, tokens = step.guessing.owner, step.guessing.token_ids
        for seq in np.flatnonzero(guesses.counts).tolist():
            row = int(step.rows[seq])
            begin = len(tokens[row])
            self._guessed[row] = Guessed(int(owner[row]), begin, guesses.of(seq), self._tries)

    def _learn(self, step: Step) -> None:
        """Which of the last guesses came true."""
        guessing = step.guessing
        assert guessing is not None
        if len(guessing.owner) != self._acceptance.num_rows:
            self._acceptance = Acceptance(len(guessing.owner), PRIOR)
        rows: list[int] = []
        hits: list[bool] = []
        for row, (owner, begin, ids, tried) in self._guessed.items():
            if guessing.owner[row] != owner:
                continue
            came = guessing.token_ids[row][begin : begin + len(ids)].tolist()
            for guess, token_id in zip(ids, came, strict=False):
                rows.append(row)
                hits.append(guess == token_id)
                if not hits[-1]:
                    break
            if tried and came[:1] == ids[:1]:
                self._purse.earn(0.0, self._worth_s(step))
        self._guessed.clear()
        self._acceptance.learn(np.array(rows, np.int64), np.full(len(rows), KIND), np.array(hits, np.bool_))

    def _worth_s(self, step: Step) -> float:
        """What one more output token saves."""
        assert step.guessing is not None
        num_decoding = max(1, step.num_sampled)
        return (step.guessing.cost.seconds(num_decoding) or 0.0) / num_decoding

    def _chances(self, rates: NDArray[np.float64], limits: NDArray[np.int64]) -> NDArray[np.float64]:
        """float64[len(rates), num_guesses]: of each guess and all before it."""
        depths = np.arange(self._num_guesses)
        powers: NDArray[np.float64] = rates[:, None] ** (depths + 1)
        return powers * (depths < limits[:, None])

    def _try_one(
        self, step: Step, computed: NDArray[np.int32], seqs: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> None:
        """One guess for the sequence of which the draft lacks least, once the purse has what it takes."""
        assert step.guessing is not None
        lacking = step.num_past[seqs] + 1 - computed[seqs]
        cheapest = int(lacking.argmin())
        after_s = step.guessing.cost.curve(step.num_tokens + np.arange(2))
        if after_s is None:
            return
        price_s = float(after_s[1] - after_s[0]) + (self._cost.seconds(int(lacking[cheapest])) or 0.0)
        if self._purse.pays(price_s):
            counts[seqs[cheapest]] = 1
            self._tries = True
