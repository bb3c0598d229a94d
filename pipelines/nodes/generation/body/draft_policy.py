"""Decides which sequences a draft model drafts for, and how many tokens: as many as pay, and rare trials."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.contracts.step import Step
from pipelines.inference.engine.speculation.draft_lengths import (
    AcceptanceRate,
    ExplorationBudget,
    draft_lengths,
    worth_speculating,
)
from pipelines.inference.engine.speculation.speculation_slots import SpeculationSlots
from pipelines.inference.engine.speculation.step_cost import StepCost
from pipelines.nodes.generation.body.draft_choice import DraftTokens

PRIOR = (0.7,)
TRIES_SHARE = 0.015
"""Share of all time that trials without accepted tokens may take."""
KIND = 0
"""Draft tokens of a draft are all of one kind."""


class PendingDraft(NamedTuple):
    """Draft tokens after the first `begin` tokens of a slot's owner."""

    owner: int
    begin: int
    ids: list[int]
    tried: bool


class DraftPolicy:
    """`cost` is what the draft's own steps take."""

    def __init__(self, num_draft_tokens: int, adaptive: bool, cost: StepCost) -> None:
        self._num_draft_tokens, self._adaptive, self._cost = num_draft_tokens, adaptive, cost
        self._acceptance = AcceptanceRate(PRIOR, shared=True)
        self._drafted: dict[int, PendingDraft] = {}
        self._budget = ExplorationBudget(TRIES_SHARE)
        self._tries = False

    def counts(
        self,
        step: Step,
        speculation: SpeculationSlots,
        computed: NDArray[np.int32],
        longest: NDArray[np.int32],
    ) -> NDArray[np.int64]:
        """How many draft tokens each sequence wants now: int64[num_seqs], at most `longest[i]` and its draft
        budget.

        computed: int32[num_seqs], tokens that the draft has in its cache.
        """
        self._learn(step, speculation)
        assert step.draft_budget is not None
        limits = np.minimum(step.draft_budget, longest).astype(np.int64)
        seqs = np.flatnonzero(limits)
        counts = np.zeros(step.num_seqs, np.int64)
        if not self._adaptive or not len(seqs):
            return limits
        cost = speculation.cost
        slots = step.slots[seqs]
        for slot in slots.tolist():
            self._acceptance.assign(slot, speculation.owner[slot])
        self._budget.earn(cost.seconds(step.num_tokens) or 0.0)
        self._tries = False
        if step.num_tokens == step.num_sampled and cost.is_stale(step.num_tokens):
            return counts
        rates = np.array([self._acceptance.rate(slot, KIND) for slot in slots.tolist()])
        chances = self._chances(rates, limits[seqs])
        counts[seqs] = draft_lengths(chances, step.num_tokens, step.num_sampled, cost, self._cost)
        if not counts.any() and worth_speculating(
            len(seqs), step.num_tokens, step.num_sampled, cost, self._cost
        ):
            self._try_one(step, cost, computed, seqs, counts)
        return counts

    def wants_prompts(self, step: Step, speculation: SpeculationSlots) -> bool:
        """Whether a new sequence would be drafted for at this load: then its prompt is computed now."""
        assert step.draft_budget is not None
        cost, num_slots = speculation.cost, max(1, int(np.count_nonzero(step.draft_budget)))
        if not self._adaptive or cost.seconds(num_slots) is None:
            return True
        pooled = np.repeat(self._acceptance.pooled(KIND), num_slots)
        chances = self._chances(pooled, np.full(num_slots, self._num_draft_tokens))
        return bool(draft_lengths(chances, num_slots, num_slots, cost, self._cost).any())

    def record_drafts(self, step: Step, speculation: SpeculationSlots, draft_tokens: DraftTokens) -> None:
        """Record the draft tokens of the step, to compare with the output at the next step."""
        owner, tokens = speculation.owner, speculation.token_ids
        for seq in np.flatnonzero(draft_tokens.counts).tolist():
            slot = int(step.slots[seq])
            begin = len(tokens[slot])
            self._drafted[slot] = PendingDraft(owner[slot], begin, draft_tokens.of(seq), self._tries)

    def _learn(self, step: Step, speculation: SpeculationSlots) -> None:
        """Learn which of the last draft tokens were accepted."""
        for slot, (owner, begin, ids, tried) in self._drafted.items():
            if speculation.owner[slot] != owner:
                continue
            self._acceptance.assign(slot, owner)
            came = speculation.token_ids[slot][begin : begin + len(ids)].tolist()
            for draft_token, token_id in zip(ids, came, strict=False):
                self._acceptance.learn(slot, KIND, draft_token == token_id)
                if draft_token != token_id:
                    break
            if tried and came[:1] == ids[:1]:
                self._budget.earn(0.0, self._worth_s(step, speculation.cost))
        self._drafted.clear()

    def _worth_s(self, step: Step, cost: StepCost) -> float:
        """What one more output token saves."""
        num_decoding = max(1, step.num_sampled)
        return (cost.seconds(num_decoding) or 0.0) / num_decoding

    def _chances(self, rates: NDArray[np.float64], limits: NDArray[np.int64]) -> NDArray[np.float64]:
        """float64[len(rates), num_draft_tokens]: of each draft token and all before it."""
        depths = np.arange(self._num_draft_tokens)
        powers: NDArray[np.float64] = rates[:, None] ** (depths + 1)
        return powers * (depths < limits[:, None])

    def _try_one(
        self,
        step: Step,
        cost: StepCost,
        computed: NDArray[np.int32],
        seqs: NDArray[np.int64],
        counts: NDArray[np.int64],
    ) -> None:
        """Draft one token for the sequence of which the draft lacks least, once the budget allows it."""
        lacking = step.num_past[seqs] + 1 - computed[seqs]
        cheapest = int(lacking.argmin())
        after_s = cost.curve(step.num_tokens + np.arange(2))
        if after_s is None:
            return
        price_s = float(after_s[1] - after_s[0]) + (self._cost.seconds(int(lacking[cheapest])) or 0.0)
        if self._budget.pays(price_s):
            counts[seqs[cheapest]] = 1
            self._tries = True
