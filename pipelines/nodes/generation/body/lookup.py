"""The lookup node: drafts the tokens that followed an earlier occurrence of the last tokens.

Prompt lookup decoding (Saxena, 2023).
"""

from __future__ import annotations

from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from graphs.node import NodeConfig
from pipelines.host.engine.speculation.draft_lengths import (
    AcceptanceRate,
    draft_lengths,
    least_chance,
    worth_speculating,
)
from pipelines.host.engine.speculation.ngram_index import CopyTracker
from pipelines.host.engine.speculation.speculation_slots import SpeculationSlots
from pipelines.host.engine.speculation.speculative_steps import with_draft_tokens
from pipelines.host.engine.speculation.step_cost import StepCost
from pipelines.host.engine.step import Step
from pipelines.host.engine.step_context import StepContext
from pipelines.nodes.generation.body.lookup_cost import LookupCost
from pipelines.nodes.generation.body.speculator import ADAPTIVE, RENAMED, Speculator
from pipelines.wire.sampling_params import MAX_DRAFT_TOKENS, MAX_NGRAM

PRIOR = np.array([0.15, 0.3, 0.45, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.9, 0.95, 0.95])
"""How likely the next token repeats, by how many tokens before it do; the last is for all longer repeats."""

LEAST_GAIN = 1.12
"""Draft tokens must make tokens cheaper by this factor: those that gain little gain nothing when times are
measured a few percent too short, and they are most of what is drafted where a text repeats by chance.
"""

FEW_ROWS = 16
"""Fewer sequences are looked up in less time than the estimate takes."""


class Lookup(Speculator):
    """Proposes what followed the last tokens where they occurred before in prompt and output; pauses where
    that does not pay off.

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

    def run(self, step: StepContext) -> StepContext:
        return self._speculate(step)

    def _speculate(self, context: StepContext) -> StepContext:
        step, speculation = context.step, context.speculation
        if speculation is None or step.draft_tokens is not None or not step.draft_budget.any():
            return context
        seqs = np.flatnonzero(step.draft_budget)
        if self.config.adaptive and not (
            self._lookup_cost.is_affordable(step, speculation.cost)
            and _may_pay(step, len(seqs), speculation.cost)
        ):
            return context
        began_s = thread_time()
        drafted = self._draft(step, seqs, speculation)
        self._lookup_cost.took(thread_time() - began_s)
        return context if drafted is step else context.with_step(drafted)

    def _draft(self, step: Step, seqs: NDArray[np.int64], speculation: SpeculationSlots) -> Step:
        slots = step.slots[seqs]
        self._follow(slots, speculation)
        if self.config.adaptive and len(seqs) <= FEW_ROWS and not self._any_likely(step, slots, speculation):
            self._lookup_cost.draft_token(slots, np.zeros(len(slots), np.int64))
            return step
        chances = self._chances(slots, np.minimum(step.draft_budget[seqs], self.num_draft_tokens))
        counts = np.zeros(step.num_seqs, np.int64)
        counts[seqs] = self._counts(step, chances, speculation.cost)
        self._lookup_cost.draft_token(slots, counts[seqs])
        return with_draft_tokens(step, counts, self._ids(step, seqs, counts, speculation))

    def _any_likely(self, step: Step, slots: NDArray[np.int32], speculation: SpeculationSlots) -> bool:
        """Whether the next token of any slot is predicted, and is likely enough that it may pay."""
        matched = {slot: self._tracker(slot).matched for slot in slots.tolist()}
        if not any(matched.values()):
            return False
        num_drafts = self.num_draft_tokens * len(slots)
        least = least_chance(num_drafts, step.num_tokens, step.num_sampled, speculation.cost, LEAST_GAIN)
        return any(
            self._acceptance.rate(slot, min(length, len(PRIOR)) - 1) >= least
            for slot, length in matched.items()
            if length
        )

    def _follow(self, slots: NDArray[np.int32], speculation: SpeculationSlots) -> None:
        """Advance each slot's tracker to its last token, and learn the acceptance rates from it."""
        if not hasattr(self, "_acceptance"):
            self._acceptance = AcceptanceRate(len(speculation.owner), PRIOR)
            self._trackers: list[CopyTracker | None] = [None] * len(speculation.owner)
        for slot in slots[self._acceptance.assign(slots, speculation.owner[slots])].tolist():
            longest = int(speculation.max_ngram[slot]) or self.config.max_ngram
            self._trackers[slot] = CopyTracker(min(longest, MAX_NGRAM))
        seen: list[tuple[int, int, bool]] = []
        for slot in slots.tolist():
            followed = self._tracker(slot).follow(speculation.token_ids[slot])
            if followed is not None:
                kind, hits, missed = followed
                self._lookup_cost.record_accepted(slot, hits)
                seen += [(slot, kind + k, True) for k in range(hits)]
                seen += [(slot, kind + hits, False)] * missed
        if seen:
            of, kinds, hits_of = (np.array(column, np.int64) for column in zip(*seen, strict=True))
            self._acceptance.learn(of, _kind(kinds), hits_of == 1)

    def _chances(self, slots: NDArray[np.int32], limits: NDArray[np.int32]) -> NDArray[np.float64]:
        """How likely each of the next tokens of each trail is accepted: float64[len(slots),
        num_draft_tokens].
        """
        matched = np.array([self._tracker(slot).matched for slot in slots.tolist()])
        depths = np.arange(self.num_draft_tokens)
        rates = np.take_along_axis(self._acceptance.rates(slots), _kind(matched[:, None] + depths), axis=1)
        chances = np.asarray(np.cumprod(rates, axis=1), np.float64)
        return chances * ((depths < limits[:, None]) & (matched > 0)[:, None])

    def _counts(self, step: Step, chances: NDArray[np.float64], cost: StepCost) -> NDArray[np.int64]:
        if not self.config.adaptive:
            return np.asarray(np.count_nonzero(chances, axis=1), np.int64)
        return draft_lengths(chances, step.num_tokens, step.num_sampled, cost, least_gain=LEAST_GAIN)

    def _ids(
        self, step: Step, seqs: NDArray[np.int64], counts: NDArray[np.int64], speculation: SpeculationSlots
    ) -> NDArray[np.int64]:
        ids: list[int] = []
        for seq in seqs[counts[seqs] > 0].tolist():
            slot = int(step.slots[seq])
            ids += self._tracker(slot).next_ids(speculation.token_ids[slot], int(counts[seq]))
        return np.array(ids, np.int64)

    def _tracker(self, slot: int) -> CopyTracker:
        tracker = self._trackers[slot]
        assert tracker is not None
        return tracker


def _kind(matched: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(np.minimum(matched, len(PRIOR)) - 1, np.int64)


def _may_pay(step: Step, num_slots: int, cost: StepCost) -> bool:
    """Whether draft tokens would pay if they were sure: then it is worth the time to look at many slots."""
    if step.num_tokens == step.num_sampled and cost.is_stale(step.num_tokens):
        return False
    if num_slots <= FEW_ROWS:
        return True
    return worth_speculating(num_slots, step.num_tokens, step.num_sampled, cost)
