"""A speculation node for tests: it proposes the true continuation of each choice, with a set share of errors."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from random import Random

import numpy as np
from engine_rig import VOCAB_SIZE, Rig

from ops.draft_verification import NO_DRAFT_TOKEN
from pipelines.inference.contracts.step import Step
from pipelines.inference.engine.speculation.speculative_steps import with_draft_tokens
from pipelines.inference.sampling.step_context import StepContext

Foresight = Callable[[Hashable, int], list[int]]
"""All tokens that a choice of a request will give."""


class OracleSpeculator:
    """Draft tokens up to the room of every sequence; a token is wrong with the probability `errs`."""

    def __init__(self, rig: Rig, foresight: Foresight, random: Random, errs: float) -> None:
        self.rig, self.foresight, self.random, self.errs = rig, foresight, random, errs
        rig.draft_token = self.draft_token

    def draft_token(self, context: StepContext) -> StepContext:
        step = context.step
        assert context.speculation is not None
        check_room(step, self.rig)
        drafted = [
            self._of(slot, room)
            for slot, room in zip(step.slots.tolist(), step.draft_budget.tolist(), strict=True)
        ]
        counts = np.array([len(ids) for ids in drafted], np.int64)
        with_runs = with_draft_tokens(
            step, counts, np.array([token_id for ids in drafted for token_id in ids], np.int64)
        )
        check_runs(step, with_runs, drafted)
        return context.with_step(with_runs)

    def _of(self, slot: int, room: int) -> list[int]:
        if not room:
            return []
        running = self.rig.engine.scheduler.running
        sequence = next(one for one in running if one.slot == slot)
        coming = self.foresight(sequence.key, sequence.choice)[sequence.num_output :]
        count = self.random.randint(0, room)
        return [self._perhaps(coming[k]) if k < len(coming) else self._any() for k in range(count)]

    def _perhaps(self, token_id: int) -> int:
        return self._any() if self.random.random() < self.errs else token_id

    def _any(self) -> int:
        return self.random.randrange(VOCAB_SIZE)


def check_room(step: Step, rig: Rig) -> None:
    """What `Step` promises of room."""
    limits, counts = rig.engine.scheduler.settings, np.diff(step.starts)
    assert step.draft_budget.shape == step.slots.shape == (step.num_seqs,)
    assert (step.draft_budget >= 0).all()
    assert (counts[step.draft_budget > 0] == 1).all()
    reach = step.num_past + counts + step.draft_budget
    assert (reach <= step.num_blocks * rig.session.shape.block_tokens).all()
    assert (reach < rig.engine.limits.max_context + 1).all()
    assert step.num_tokens + step.draft_budget.sum() <= limits.max_step_tokens
    assert step.num_scored + step.draft_budget.sum() <= limits.max_scored_tokens


def check_runs(step: Step, with_runs: Step, drafted: list[list[int]]) -> None:
    """Every sequence has its own tokens, then its draft tokens; every sampled slot became a run."""
    counts = np.diff(step.starts)
    tokens = [
        step.token_ids[begin : begin + count].tolist() + ids
        for begin, count, ids in zip(step.starts[:-1].tolist(), counts.tolist(), drafted, strict=True)
    ]
    assert with_runs.token_ids.tolist() == [token_id for some in tokens for token_id in some]
    assert np.diff(with_runs.starts).tolist() == [len(some) for some in tokens]
    places = [
        past + k for past, some in zip(step.num_past.tolist(), tokens, strict=True) for k in range(len(some))
    ]
    assert with_runs.positions.tolist() == places
    assert with_runs.max_context == max(places) + 1
    draft = with_runs.draft
    if draft is None:
        assert not any(drafted)
        return
    runs = np.split(draft.token_ids, np.flatnonzero(draft.token_ids == NO_DRAFT_TOKEN) + 1)[:-1]
    assert [run[:-1].tolist() for run in runs] == drafted[: len(runs)] + [[]] * (len(runs) - len(drafted))
    assert draft.offsets.tolist() == [k for run in runs for k in range(len(run))]
    assert with_runs.logit_slots.tolist() == np.repeat(step.logit_slots, [len(run) for run in runs]).tolist()
    at = with_runs.logit_indices[: with_runs.num_sampled]
    assert (np.diff(at)[draft.offsets[1:] > 0] == 1).all()
    assert with_runs.token_ids[at[draft.offsets > 0]].tolist() == [
        token_id for ids in drafted for token_id in ids
    ]
