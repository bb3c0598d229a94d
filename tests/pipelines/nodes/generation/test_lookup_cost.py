"""A node whose own time is not paid lets steps pass."""

from __future__ import annotations

import numpy as np
from speculation_streams import rows_of, step_of

from pipelines.host.engine.speculation.step_cost import StepCost
from pipelines.host.engine.step import Step
from pipelines.host.sampling.sampling_slots import SamplingSlots
from pipelines.nodes.generation.body.lookup_cost import LOOKUP_SHARE, LOOKUP_TRIES, LookupCost

STEP_S = 0.001
NODE_S = 0.0002
ROWS = np.array([0], np.int32)


def costs() -> StepCost:
    cost = StepCost()
    cost.seed_cost({1: STEP_S, 6: STEP_S})
    return cost


def lone_step() -> Step:
    return step_of(rows_of([[1, 2, 3]]), SamplingSlots(1, 9), [0], 5).step


def turns_taken(lookup_cost: LookupCost, num_steps: int, hits: int = 0) -> int:
    """How many of the steps the node looks at, when `hits` of its five draft tokens are accepted each time."""
    step, cost, taken = lone_step(), costs(), 0
    for _ in range(num_steps):
        if lookup_cost.is_affordable(step, cost):
            taken += 1
            lookup_cost.record_accepted(0, hits)
            lookup_cost.draft_token(ROWS, np.array([5]))
            lookup_cost.took(NODE_S)
    return taken


def test_what_never_comes_true_takes_its_share_of_time_and_no_more():
    lookup_cost = LookupCost()
    turns_taken(lookup_cost, 100)
    taken = turns_taken(lookup_cost, 2000)
    assert 0.5 * LOOKUP_SHARE < taken * NODE_S / (2000 * STEP_S) < 1.2 * LOOKUP_SHARE


def test_what_comes_true_pays_for_itself():
    lookup_cost = LookupCost()
    turns_taken(lookup_cost, 100, hits=5)
    assert turns_taken(lookup_cost, 300, hits=5) > 290


def test_it_does_not_live_on_its_savings_for_ever():
    lookup_cost = LookupCost()
    turns_taken(lookup_cost, 2000, hits=5)
    assert turns_taken(lookup_cost, 1000) < LOOKUP_TRIES + 100


def test_while_steps_are_not_known_it_looks_at_all():
    lookup_cost, cost = LookupCost(), StepCost()
    for _ in range(5):
        assert lookup_cost.is_affordable(lone_step(), cost)
        lookup_cost.took(NODE_S)
