"""The lookup node: drafts the tokens that followed an earlier occurrence of the last tokens.

Prompt lookup decoding (Saxena, 2023).
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from graphs.node import NodeConfig
from pipelines.inference.contracts.step import Step
from pipelines.inference.engine.speculation.draft_lengths import (
    AcceptanceRate,
    draft_lengths,
    least_chance,
    worth_speculating,
)
from pipelines.inference.engine.speculation.expected_text import ExpectingTracker
from pipelines.inference.engine.speculation.ngram_index import CopyTracker
from pipelines.inference.engine.speculation.speculation_slots import SpeculationSlots
from pipelines.inference.engine.speculation.speculative_steps import with_draft_tokens
from pipelines.inference.engine.speculation.step_cost import StepCost
from pipelines.inference.sampling.step_context import StepContext
from pipelines.nodes.generation.body.lookup_cost import MOST_RESTS, LookupCost
from pipelines.nodes.generation.body.speculator import ADAPTIVE, RENAMED, Speculator
from pipelines.wire.sampling_params import MAX_DRAFT_TOKENS, MAX_NGRAM

PRIOR = (0.15, 0.3, 0.45, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.9, 0.95, 0.95)
"""How likely the next token repeats, by how many tokens before it do; the last is for all longer repeats.

What is supposed of a new sequence: that others copy says nothing of one that does not.
"""

LEAST_GAIN = 1.2
"""Draft tokens must make tokens cheaper by this factor: those that gain little gain nothing when times are
measured a few percent too short, and they are most of what is drafted where a text repeats by chance.
"""

FEW_SLOTS = 16
"""So few sequences are looked up in less time than it takes to estimate whether that may pay."""


class Lookup(Speculator):
    """Proposes what followed the last tokens where they occurred before in prompt and output, or the text
    that a request expects: that of the first model of a cascade.

    After a search that found nothing the next steps pass without one, so that searches take a small share of
    the time.

    Whether a draft token would have been accepted is visible without computing it, so measuring costs
    nothing.
    """

    class Config(NodeConfig):
        renamed = RENAMED

        max_ngram: int = Field(
            default=3,
            ge=1,
            le=MAX_NGRAM,
            description="most tokens of an n-gram that is looked up; shorter ones are tried too",
        )
        num_draft_tokens: int = Field(
            default=10, ge=1, le=MAX_DRAFT_TOKENS, description="most draft tokens in a step"
        )
        adaptive: bool = ADAPTIVE

    def __init__(self, config: Any, folder: Path) -> None:
        super().__init__(config, folder)
        self._lookup_cost = LookupCost()
        self._acceptance = AcceptanceRate(PRIOR, shared=False)
        self._trackers: dict[int, CopyTracker] = {}  # by slot

    def run(self, step: StepContext) -> StepContext:
        return self._speculate(step)

    def _speculate(self, context: StepContext) -> StepContext:
        step, speculation = context.step, context.speculation
        if speculation is None or step.draft is not None or step.draft_budget is None:
            return context
        budgets = step.draft_budget.tolist()
        slots = [slot for slot, budget in zip(step.slots.tolist(), budgets, strict=True) if budget]
        if not slots:
            return context
        if not self.config.adaptive:
            self._follow(slots, speculation)
            counts = np.count_nonzero(self._chances(step, slots), axis=1)
            return context.with_step(self._with_drafts(step, slots, counts, speculation))
        cost = speculation.cost
        if step.num_tokens == step.num_sampled and cost.is_stale(step.num_tokens):
            return context
        if len(slots) > FEW_SLOTS and not worth_speculating(
            len(slots), step.num_tokens, step.num_sampled, cost
        ):
            speculation.rest(MOST_RESTS)  # not even if all of them were sure
            return context
        began_s = perf_counter()
        counts = self._search(step, slots, speculation)
        self._lookup_cost.took(perf_counter() - began_s)
        if counts is not None and counts.any():
            return context.with_step(self._with_drafts(step, slots, counts, speculation))
        speculation.rest(self._lookup_cost.num_rests())
        return context

    def _search(
        self, step: Step, slots: list[int], speculation: SpeculationSlots
    ) -> NDArray[np.int64] | None:
        """How many draft tokens pay for each slot: int64[len(slots)], or None for none at all."""
        cost = speculation.cost
        self._follow(slots, speculation)
        self._lookup_cost.earn(step.num_sampled, cost)
        counts = None
        if self._any_likely(step, slots, cost):
            chances = self._chances(step, slots)
            counts = draft_lengths(chances, step.num_tokens, step.num_sampled, cost, least_gain=LEAST_GAIN)
        self._lookup_cost.draft_token(slots, counts)
        return counts

    def _follow(self, slots: list[int], speculation: SpeculationSlots) -> None:
        """Advance each slot's tracker to its last token, and learn the acceptance rates from it."""
        for slot in slots:
            tracker, owner = self._trackers.get(slot), speculation.owner[slot]
            if tracker is None or tracker.owner != owner:
                self._trackers[slot] = tracker = self._tracker(slot, speculation)
                self._acceptance.assign(slot, owner)
            followed = tracker.follow(speculation.token_ids[slot])
            if followed is not None:
                for length in range(followed.matched, followed.matched + followed.hits):
                    self._acceptance.learn(slot, _kind(length), hit=True)
                if followed.missed:
                    self._acceptance.learn(slot, _kind(followed.matched + followed.hits), hit=False)
                self._lookup_cost.record_accepted(slot, followed.hits)

    def _tracker(self, slot: int, speculation: SpeculationSlots) -> CopyTracker:
        """What follows the tokens of a sequence that has come into a slot."""
        longest = min(speculation.max_ngram[slot] or self.config.max_ngram, MAX_NGRAM)
        owner, expected = speculation.owner[slot], speculation.expected[slot]
        if expected:
            return ExpectingTracker(longest, owner, expected, speculation.num_prompt[slot])
        return CopyTracker(longest, owner)

    def _any_likely(self, step: Step, slots: list[int], cost: StepCost) -> bool:
        """Whether the next token of any slot is predicted, and is likely enough that it may pay."""
        matched = [(slot, length) for slot in slots if (length := self._trackers[slot].matched)]
        if not matched:
            return False
        num_drafts = self.num_draft_tokens * len(slots)
        least = least_chance(num_drafts, step.num_tokens, step.num_sampled, cost, LEAST_GAIN)
        return any(self._acceptance.rate(slot, _kind(length)) >= least for slot, length in matched)

    def _chances(self, step: Step, slots: list[int]) -> NDArray[np.float64]:
        """How likely each next token of a copied passage is accepted: float64[len(slots), num_draft_tokens].

        `slots` are those with a draft budget, in the order of the step.
        """
        chances = np.zeros((len(slots), self.num_draft_tokens))
        assert step.draft_budget is not None
        budgets = step.draft_budget[step.draft_budget > 0].tolist()
        for row, (slot, budget) in enumerate(zip(slots, budgets, strict=True)):
            if length := self._trackers[slot].matched:
                kinds = (_kind(length + ahead) for ahead in range(min(budget, self.num_draft_tokens)))
                rates = [self._acceptance.rate(slot, kind) for kind in kinds]
                chances[row, : len(rates)] = np.cumprod(rates)
        return chances

    def _with_drafts(
        self, step: Step, slots: list[int], counts: NDArray[np.int64], speculation: SpeculationSlots
    ) -> Step:
        ids: list[int] = []
        for slot, count in zip(slots, counts.tolist(), strict=True):
            if count:
                ids += self._trackers[slot].next_ids(speculation.token_ids[slot], count)
        of_all = np.zeros(step.num_seqs, np.int64)
        assert step.draft_budget is not None
        of_all[step.draft_budget > 0] = counts
        return with_draft_tokens(step, of_all, np.array(ids, np.int64))


def _kind(matched: int) -> int:
    return min(matched, len(PRIOR)) - 1
