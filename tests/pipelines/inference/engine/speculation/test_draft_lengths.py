"""When draft tokens pay, in numbers."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.inference.engine.speculation.draft_lengths import (
    AcceptanceRate,
    ExplorationBudget,
    draft_lengths,
    least_chance,
    worth_speculating,
)
from pipelines.inference.engine.speculation.step_cost import StepCost


def cost_of(**took: float) -> StepCost:
    """n4=0.02: a step of 4 tokens takes so long."""
    cost = StepCost()
    for name, seconds in took.items():
        for _ in range(4):
            cost.learn(int(name[1:]), seconds)
    return cost


def powers(*chances: float, depth: int = 4) -> np.ndarray:
    return np.array([[chance ** (k + 1) for k in range(depth)] for chance in chances])


FREE = {"n1": 0.02, "n2": 0.02, "n3": 0.02, "n8": 0.02}
DEAR = {"n1": 0.02, "n2": 0.04, "n8": 0.16}


def test_free_guesses_are_all_taken():
    assert draft_lengths(powers(0.5), 1, 1, cost_of(**FREE)).tolist() == [4]


def test_guesses_as_dear_as_tokens_are_not():
    assert draft_lengths(powers(0.95), 1, 1, cost_of(**DEAR)).tolist() == [0]


def test_as_many_as_make_a_token_cheapest():
    cost = cost_of(n1=0.02, n2=0.024, n8=0.048)  # one more takes a fifth of a step
    assert draft_lengths(powers(0.5), 1, 1, cost).tolist() == [1]
    assert draft_lengths(powers(0.9), 1, 1, cost).tolist() == [4]
    assert draft_lengths(powers(0.15), 1, 1, cost).tolist() == [0]


def test_the_likelier_row_guesses():
    cost = cost_of(n1=0.02, n2=0.02, n3=0.022, n8=0.032)
    assert draft_lengths(powers(0.2, 0.9), 2, 2, cost).tolist() == [0, 4]


def test_nothing_is_guessed_while_a_step_without_guesses_is_not_known():
    assert draft_lengths(powers(0.9), 1, 1, StepCost()).tolist() == [0]


def test_the_next_size_is_tried_first():
    assert draft_lengths(powers(0.1, 0.9), 2, 2, cost_of(n2=0.02)).tolist() == [0, 1]


def test_chances_that_are_none_are_not_taken():
    chances = powers(0.9, 0.9)
    chances[0] = 0
    chances[1, 2:] = 0
    assert draft_lengths(chances, 2, 2, cost_of(**FREE)).tolist() == [0, 2]


def test_what_a_prompt_takes_is_not_the_guesses_to_pay():
    cost = cost_of(n1=0.02, n2=0.02, n100=0.2, n110=0.22)  # 2 ms a token; one is worth 20 ms
    assert draft_lengths(powers(0.6, depth=3), 101, 1, cost).tolist() == [3]
    assert draft_lengths(powers(0.05, depth=3), 101, 1, cost).tolist() == [0]


def test_a_step_is_not_far_larger_than_any_that_is_known():
    chances = powers(*[0.99] * 32, depth=4)
    assert draft_lengths(chances, 32, 32, cost_of(n32=0.02, n40=0.02)).sum() == 28  # 60 tokens


def test_the_time_of_a_draft_counts():
    cost = cost_of(**FREE)
    assert draft_lengths(powers(0.9), 1, 1, cost, cost_of(n1=0.001)).tolist() == [4]
    assert draft_lengths(powers(0.6), 1, 1, cost, cost_of(n1=0.008)).tolist() == [1]
    assert draft_lengths(powers(0.6), 1, 1, cost, cost_of(n1=0.015)).tolist() == [0]


def test_a_draft_that_runs_anyway_takes_more_rows():
    cost, draft = cost_of(n1=0.02, n4=0.02, n5=0.02, n8=0.02), cost_of(n1=0.004)
    assert draft_lengths(powers(0.7, 0.7, 0.7, 0.7, depth=1), 4, 4, cost, draft).tolist() == [1] * 4
    assert draft_lengths(powers(0.7, 0, 0, 0, depth=1), 4, 4, cost, draft).tolist() == [0] * 4


def test_sure_ones_pay_or_nothing_does():
    assert worth_speculating(1, 1, 1, cost_of(**FREE))
    assert not worth_speculating(1, 1, 1, cost_of(**DEAR))


@pytest.mark.parametrize("took", [{"n1": 0.02, "n2": 0.024, "n5": 0.036, "n9": 0.041}, FREE, DEAR])
def test_below_the_least_chance_nothing_pays(took):
    cost = cost_of(**took)
    least = least_chance(4, 1, 1, cost)
    if least < 1:  # what is likely enough to stay as likely
        assert draft_lengths(np.full((1, 4), min(1.0, least + 0.01)), 1, 1, cost).any()
    below = np.full((1, 4), min(1.0, least) - 0.01).clip(0)
    assert not draft_lengths(below, 1, 1, cost).any()


def test_the_least_chance_of_several_rows():
    cost = cost_of(n2=0.02, n3=0.022, n10=0.036)
    least = least_chance(8, 2, 2, cost)
    assert draft_lengths(np.full((2, 4), least + 0.01), 2, 2, cost).any()
    assert not draft_lengths(np.full((2, 4), least - 0.01), 2, 2, cost).any()


def test_a_size_that_is_to_be_tried_has_no_least_chance():
    assert least_chance(4, 1, 1, StepCost()) == 0
    assert least_chance(4, 1, 1, cost_of(n1=0.02)) == 0


def learn(acceptance: AcceptanceRate, slot: int, kind: int, *hits: bool) -> None:
    for hit in hits:
        acceptance.learn(slot, kind, hit)


def acceptance_of(num_slots: int, *prior: float) -> AcceptanceRate:
    acceptance = AcceptanceRate(prior, shared=True)
    for slot in range(num_slots):
        acceptance.assign(slot, 7)
    return acceptance


def test_a_slot_begins_with_what_is_known_of_all():
    acceptance = acceptance_of(2, 0.5, 0.9)
    assert (acceptance.rate(0, 0), acceptance.rate(1, 1)) == (0.5, 0.9)
    learn(acceptance, 0, 0, *[True] * 200)
    assert acceptance.rate(0, 0) > 0.95
    assert 0.9 < acceptance.rate(1, 0) < acceptance.rate(0, 0)
    assert acceptance.rate(1, 1) == 0.9


def test_slots_that_do_not_share_begin_with_the_prior():
    acceptance = AcceptanceRate([0.5], shared=False)
    acceptance.assign(0, 1)
    learn(acceptance, 0, 0, *[True] * 200)
    acceptance.assign(1, 2)
    assert acceptance.rate(0, 0) > 0.9
    assert acceptance.rate(1, 0) == 0.5


def test_a_slot_goes_over_to_its_own():
    acceptance = acceptance_of(2, 0.5)
    for _ in range(40):
        learn(acceptance, 0, 0, True)
        learn(acceptance, 1, 0, False)
    assert acceptance.rate(0, 0) > 0.85
    assert acceptance.rate(1, 0) < 0.15


def test_a_slot_that_changes_is_noticed():
    acceptance = acceptance_of(1, 0.5)
    learn(acceptance, 0, 0, *[False] * 100)
    learn(acceptance, 0, 0, *[True] * 30)
    assert acceptance.rate(0, 0) > 0.6


def test_a_new_owner_begins_anew():
    acceptance = acceptance_of(1, 0.5)
    learn(acceptance, 0, 0, *[True] * 10)
    before = acceptance.rate(0, 0)
    acceptance.assign(0, 7)
    assert acceptance.rate(0, 0) == before
    acceptance.assign(0, 8)
    assert acceptance.rate(0, 0) == acceptance.pooled(0) < before


def test_a_change_of_size_is_to_be_paid_there_and_back():
    cost, draws = cost_of(**FREE), powers(0.5)
    assert cost.last == 8
    cost.learn(1, 0.02)
    assert draft_lengths(draws, 1, 1, cost).tolist() == [4]
    cost.change_s = 0.02
    assert draft_lengths(draws, 1, 1, cost).tolist() == [0], "one more token for two steps"
    assert draft_lengths(powers(0.98), 1, 1, cost).tolist() == [4]


def test_steps_with_draft_tokens_go_on_where_lone_ones_do_not_begin():
    cost, draws = cost_of(**FREE), np.array([[0.7, 0.65]])
    cost.change_s = 0.02
    cost.learn(1, 0.02)
    assert draft_lengths(draws, 1, 1, cost).tolist() == [0]
    cost.learn(3, 0.02)
    assert draft_lengths(draws, 1, 1, cost).tolist() == [2]


def test_a_purse_pays_a_share_of_all_time():
    purse = ExplorationBudget(0.01)
    paid = 0.0
    for _ in range(1000):
        purse.earn(0.02)
        if purse.pays(0.005):
            paid += 0.005
    assert paid == pytest.approx(1000 * 0.02 * 0.01, abs=0.005)


def test_a_purse_keeps_no_more_than_the_next_try():
    purse = ExplorationBudget(0.01)
    purse.earn(1000.0)
    assert not purse.pays(50.0)
    purse.earn(1000.0)
    assert [purse.pays(5.0) for _ in range(5)] == [True, True, True, True, False]


def test_what_came_true_gives_back():
    purse = ExplorationBudget(0.01)
    purse.earn(0.0, saved_s=1.0)
    assert purse.pays(1.0)
