"""The lookup node: what followed the last tokens when they stood in the text before is drafted to follow.

Knows steps and rows; knows nothing of models.  Prompt lookup decoding (Saxena, 2023).
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from graphs.node import NodeConfig
from pipelines.host.engine.speculation.draft_lengths import AcceptanceRate, draft_lengths, worth_speculating
from pipelines.host.engine.speculation.ngram_index import Trail
from pipelines.host.engine.speculation.speculation_slots import SpeculationSlots
from pipelines.host.engine.speculation.speculative_steps import with_draft_tokens
from pipelines.host.engine.speculation.step_cost import StepCost
from pipelines.host.engine.step import Step
from pipelines.host.engine.step_context import StepContext
from pipelines.nodes.generation.body.lookup_cost import Upkeep
from pipelines.nodes.generation.body.speculator import ADAPTIVE, RENAMED, Speculator
from pipelines.wire.sampling_params import MAX_DRAFT_TOKENS, MAX_NGRAM

PRIOR = np.array([0.15, 0.3, 0.45, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.9, 0.95, 0.95])
"""How likely the next token repeats, by how many tokens before it do; the last is for all longer repeats."""

FEW_ROWS = 16
"""Looked at in less time than it takes to say whether that is worth it."""


class Lookup(Speculator):
    """Proposes what followed the last tokens where they occurred before in prompt and output; pauses where
    that does not pay off.

    Whether a draft token would have are accepted is seen without computing it, so that it costs nothing to
    know.
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
            default=5, ge=1, le=MAX_DRAFT_TOKENS, description="most draft tokens in a step"
        )
        adaptive: bool = ADAPTIVE

    def __init__(self, config: Any, folder: Path) -> None:
        super().__init__(config, folder)
        self._upkeep = Upkeep()

    def run(self, step: StepContext) -> StepContext:
        return self._speculate(step)

    def _speculate(self, context: StepContext) -> StepContext:
        step, speculation = context.step, context.speculation
        if speculation is None or step.draft_tokens is not None or not step.draft_budget.any():
            return context
        seqs = np.flatnonzero(step.draft_budget)
        if self.config.adaptive and not (
            self._upkeep.is_paid(step, speculation.cost) and _may_pay(step, len(seqs), speculation.cost)
        ):
            return context
        began_s = perf_counter()
        drafted = self._draft_token(step, seqs, speculation)
        self._upkeep.took(perf_counter() - began_s)
        return context.with_step(drafted)

    def _draft_token(self, step: Step, seqs: NDArray[np.int64], speculation: SpeculationSlots) -> Step:
        rows = step.slots[seqs]
        self._follow(rows, speculation)
        chances = self._chances(rows, np.minimum(step.draft_budget[seqs], self.num_draft_tokens))
        counts = np.zeros(step.num_seqs, np.int64)
        counts[seqs] = self._counts(step, chances, speculation.cost)
        self._upkeep.draft_token(rows, counts[seqs])
        return with_draft_tokens(step, counts, self._ids(step, seqs, counts, speculation))

    def _follow(self, rows: NDArray[np.int32], speculation: SpeculationSlots) -> None:
        """Each row's trail up to its last token, and what that says about trails."""
        if not hasattr(self, "_acceptance"):
            self._acceptance = AcceptanceRate(len(speculation.owner), PRIOR)
            self._trails: list[Trail | None] = [None] * len(speculation.owner)
        for row in rows[self._acceptance.begin(rows, speculation.owner[rows])].tolist():
            longest = int(speculation.max_ngram[row]) or self.config.max_ngram
            self._trails[row] = Trail(min(longest, MAX_NGRAM))
        seen: list[tuple[int, int, bool]] = []
        for row in rows.tolist():
            followed = self._trail(row).follow(speculation.token_ids[row])
            if followed is not None:
                kind, hits, missed = followed
                self._upkeep.came_true(row, hits)
                seen += [(row, kind + k, True) for k in range(hits)]
                seen += [(row, kind + hits, False)] * missed
        if seen:
            of, kinds, hits_of = (np.array(column, np.int64) for column in zip(*seen, strict=True))
            self._acceptance.learn(of, _kind(kinds), hits_of == 1)

    def _chances(self, rows: NDArray[np.int32], limits: NDArray[np.int32]) -> NDArray[np.float64]:
        """How likely each of the next tokens of each trail is accepted: float64[len(rows),
        num_draft_tokens].
        """
        matched = np.array([self._trail(row).matched for row in rows.tolist()])
        depths = np.arange(self.num_draft_tokens)
        rates = np.take_along_axis(self._acceptance.rates(rows), _kind(matched[:, None] + depths), axis=1)
        chances = np.asarray(np.cumprod(rates, axis=1), np.float64)
        return chances * ((depths < limits[:, None]) & (matched > 0)[:, None])

    def _counts(self, step: Step, chances: NDArray[np.float64], cost: StepCost) -> NDArray[np.int64]:
        if not self.config.adaptive:
            return np.asarray(np.count_nonzero(chances, axis=1), np.int64)
        return draft_lengths(chances, step.num_tokens, step.num_sampled, cost)

    def _ids(
        self, step: Step, seqs: NDArray[np.int64], counts: NDArray[np.int64], speculation: SpeculationSlots
    ) -> NDArray[np.int64]:
        ids: list[int] = []
        for seq in seqs[counts[seqs] > 0].tolist():
            row = int(step.slots[seq])
            ids += self._trail(row).next_ids(speculation.token_ids[row], int(counts[seq]))
        return np.array(ids, np.int64)

    def _trail(self, row: int) -> Trail:
        trail = self._trails[row]
        assert trail is not None
        return trail


def _kind(matched: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(np.minimum(matched, len(PRIOR)) - 1, np.int64)


def _may_pay(step: Step, num_rows: int, cost: StepCost) -> bool:
    """Whether draft tokens would pay if they were sure: then it is worth the time to look at many rows."""
    if step.num_tokens == step.num_sampled and cost.is_stale(step.num_tokens):
        return False
    if num_rows <= FEW_ROWS:
        return True
    return worth_speculating(num_rows, step.num_tokens, step.num_sampled, cost)
