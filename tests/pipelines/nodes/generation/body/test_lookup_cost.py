"""A node whose own time is not paid for lets steps pass."""

from __future__ import annotations

import numpy as np

from pipelines.inference.engine.speculation.step_cost import StepCost
from pipelines.nodes.generation.body.lookup_cost import LOOKUP_SHARE, LOOKUP_TRIES, LookupCost

STEP_S = 0.001
NODE_S = 0.00002


def costs() -> StepCost:
    cost = StepCost()
    cost.seed_cost({1: STEP_S, 6: STEP_S})
    return cost


def turns_taken(lookup_cost: LookupCost, num_steps: int, hits: int = 0) -> int:
    """Searches in so many steps, when `hits` of the five draft tokens of each are accepted; 0: none are drafted."""
    cost, taken, rests = costs(), 0, 0
    for _ in range(num_steps):
        if rests:
            rests -= 1
            continue
        taken += 1
        lookup_cost.record_accepted(0, hits)
        lookup_cost.earn(1, cost)
        lookup_cost.draft_token([0], np.array([5]) if hits else None)
        lookup_cost.took(NODE_S)
        rests = 0 if hits else lookup_cost.num_rests()
    return taken


def test_what_finds_nothing_takes_its_share_of_time_and_no_more():
    taken = turns_taken(LookupCost(), 20000)
    assert 0.5 * LOOKUP_SHARE < taken * NODE_S / (20000 * STEP_S) < 1.2 * LOOKUP_SHARE


def test_what_comes_true_pays_for_itself():
    lookup_cost = LookupCost()
    assert turns_taken(lookup_cost, 300, hits=5) == 300
    assert turns_taken(lookup_cost, 100) == 100, "what was saved pays for more searches"


def test_it_does_not_live_on_its_savings_for_ever():
    lookup_cost = LookupCost()
    turns_taken(lookup_cost, 2000, hits=5)
    assert turns_taken(lookup_cost, 1000) < LOOKUP_TRIES + 100


def test_a_search_that_was_interrupted_does_not_stop_the_next_ones_for_long():
    lookup_cost = LookupCost()
    turns_taken(lookup_cost, 1000)
    before = lookup_cost.num_rests()
    lookup_cost.took(1000 * NODE_S)
    assert lookup_cost.num_rests() < 4 * before


def test_while_steps_are_not_known_it_searches_in_all():
    lookup_cost, cost = LookupCost(), StepCost()
    for _ in range(5):
        lookup_cost.earn(1, cost)
        lookup_cost.took(NODE_S)
        assert lookup_cost.num_rests() == 0
