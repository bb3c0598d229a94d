"""What steps take, learnt from steps that are disturbed."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from pipelines.inference.engine.speculation.step_cost import EXPIRED, SPACING, STALE, StepCost


def learnt(*steps: tuple[int, float], times: int = 4) -> StepCost:
    cost = StepCost()
    for num_tokens, seconds in steps:
        for _ in range(times):
            cost.learn(num_tokens, seconds)
    return cost


def test_nothing_is_known_at_first():
    cost = StepCost()
    assert cost.seconds(1) is None
    assert cost.curve(np.arange(3)) is None
    assert cost.is_stale(1)
    assert cost.largest == 0


def test_a_size_is_known_from_its_fourth_step_on():
    assert learnt((1, 0.02), times=3).seconds(1) is None
    assert learnt((1, 0.02), times=4).seconds(1) == 0.02


def test_between_sizes_it_is_a_straight_line_and_goes_on_behind_them():
    cost = learnt((2, 0.02), (4, 0.03))
    assert [cost.seconds(n) for n in (1, 2, 3, 4, 6)] == pytest.approx([0.02, 0.02, 0.025, 0.03, 0.04])


def test_a_single_size_says_the_same_of_all():
    assert learnt((4, 0.03)).seconds(400) == 0.03


@pytest.mark.parametrize("seed", range(10))
def test_disturbed_steps_change_little(seed):
    draw, cost = Random(seed), StepCost()
    truth = {1: 0.0194, 2: 0.0196, 4: 0.0208, 6: 0.0223, 8: 0.024, 16: 0.041, 32: 0.072}
    for _ in range(400):
        num_tokens = draw.choice(list(truth))
        odd = draw.uniform(0.01, 0.3) if draw.random() < 0.15 else 0.0
        cost.learn(num_tokens, truth[num_tokens] * draw.lognormvariate(0, 0.03) + odd)
    found = cost.curve(np.array(list(truth)))
    assert found is not None
    assert found == pytest.approx(list(truth.values()), rel=0.08)


def test_the_first_step_of_each_number_of_tokens_is_not_looked_at():
    cost = StepCost()
    for num_tokens in (21, 22, 23):
        cost.learn(num_tokens, 0.4)
    for num_tokens in (21, 22, 23):
        cost.learn(num_tokens, 0.05)
    assert cost.seconds(22) == pytest.approx(0.05)


def test_more_tokens_never_take_less():
    cost = learnt((1, 0.03), (2, 0.02), (3, 0.04))
    found = cost.curve(np.arange(1, 9))
    assert found is not None
    assert (np.diff(found) >= 0).all()


def test_twice_the_tokens_never_take_more_than_twice_the_time():
    assert learnt((4, 0.02), (8, 3.0)).seconds(8) == pytest.approx(0.04)


def test_what_is_put_aside_is_not_the_steps_own():
    cost = StepCost()
    for _ in range(4):
        cost.exclude(0.5)
        cost.exclude(0.25)
        cost.learn(1, 0.77)
    assert cost.seconds(1) == pytest.approx(0.02)
    cost.learn(2, 0.02)
    for _ in range(3):
        cost.learn(2, 0.02)
    assert cost.seconds(2) == pytest.approx(0.02)


def test_a_machine_that_becomes_slower_is_noticed():
    cost = learnt((1, 0.02), times=50)
    for _ in range(8 * SPACING):
        cost.learn(1, 0.05)
    assert cost.seconds(1) == 0.05


def test_a_size_that_was_not_seen_for_long_is_stale_and_then_forgotten():
    cost = learnt((1, 0.02), (6, 9.0))
    assert not cost.is_stale(6)
    for _ in range(STALE + 1):
        cost.learn(1, 0.02)
    assert cost.is_stale(6)
    assert not cost.is_stale(1)
    assert cost.seconds(6) > 0.1
    for _ in range(EXPIRED):
        cost.learn(1, 0.02)
    assert cost.seconds(6) == 0.02
    cost.learn(6, 0.03)
    assert cost.seconds(6) == 0.02, "what was forgotten does not come back"


def test_the_next_size_is_to_be_tried_until_it_is_known():
    cost = learnt((16, 0.04))
    assert cost.untried(16) == 4
    for _ in range(4):
        cost.learn(20, 0.05)
    assert cost.untried(16) == 0
    assert cost.untried(20) == 5
    assert cost.largest == 20
    for _ in range(EXPIRED + 1):
        cost.learn(16, 0.04)
    assert cost.untried(16) == 4


def test_a_step_of_another_size_than_the_one_before_takes_a_change_more():
    cost = StepCost()
    cost.seed_cost({1: 0.02, 4: 0.025}, change_s=0.005)
    for _ in range(10 * SPACING):
        cost.learn(1, 0.025)
        cost.learn(4, 0.030)
    assert cost.seconds(1) == pytest.approx(0.02)
    assert cost.seconds(4) == pytest.approx(0.025)
    for _ in range(10 * SPACING):
        cost.learn(1, 0.025)
    assert cost.seconds(1) == pytest.approx(0.025)


def test_what_idle_steps_took_is_known_at_once():
    cost = StepCost()
    cost.seed_cost({1: 0.02, 6: 0.03})
    assert [cost.seconds(n) for n in (1, 6)] == [0.02, 0.03]
    assert not cost.is_stale(1)
    assert cost.largest >= 6


def test_what_was_seen_counts_and_not_what_was_supposed():
    cost = learnt((1, 0.05), times=9)
    cost.seed_cost({1: 0.02, 2: 0.06})
    assert cost.seconds(1) == 0.05
    assert cost.seconds(2) == 0.06
    for _ in range(8 * SPACING):
        cost.learn(2, 0.08)
    assert cost.seconds(2) == 0.08


def test_what_is_computed_from_the_estimates_is_computed_once():
    cost, calls = learnt((1, 0.02)), []

    def count(of, number):
        calls.append(number)
        return of.seconds(number)

    assert [cost.once((1,), count) for _ in range(3)] == [0.02] * 3
    assert calls == [1]
    for _ in range(8 * SPACING):
        cost.learn(1, 0.05)
    assert cost.once((1,), count) == 0.05
    assert calls == [1, 1]
