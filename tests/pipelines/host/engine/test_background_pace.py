"""How short steps of background are while other requests come."""

from __future__ import annotations

from array import array

import pytest

from pipelines.host.engine.background_pace import LATELY_S, OUTSIDE_S, PART, BackgroundPace
from pipelines.host.engine.sequence import Sequence, Slice
from pipelines.host.engine.step_plan import Plan
from pipelines.wire.sampling_params import BACKGROUND, SamplingParams

ALL = 64
PROMPT_S = 0.046
SHORT_S = PART * (PROMPT_S + OUTSIDE_S)


def plan(*priorities: int, prompts: int = 0) -> Plan:
    """One token of each sequence; the last ones are of prompts."""
    slices = [
        Slice(Sequence(i, 0, array("i", [1, 2, 3]), 2, SamplingParams(priority=priority), *fixed(i)), 1, 1)
        for i, priority in enumerate(priorities)
    ]
    return Plan(slices, len(slices) - prompts, 0, [])


def fixed(order: int) -> tuple:
    return frozenset(), frozenset(), 10, order, b""


def background(num_tokens: int) -> Plan:
    return plan(*[BACKGROUND] * num_tokens)


class Engine:
    """Runs steps of background that take `fixed_s`, and `token_s` for each token."""

    def __init__(self, fixed_s: float = 0.004, token_s: float = 0.001) -> None:
        self.now_s = 100.0
        self.pace = BackgroundPace(lambda: self.now_s)
        self.fixed_s, self.token_s = fixed_s, token_s

    def request(self) -> None:
        self.pace.came()
        self.pace.ran(plan(0, prompts=1), PROMPT_S)

    def step(self) -> float:
        """The seconds of a step as wide as it may be."""
        num_tokens = min(ALL, self.pace.limit() or ALL)
        seconds = self.fixed_s + num_tokens * self.token_s
        self.pace.ran(background(num_tokens), seconds)
        return seconds


def test_there_is_no_limit_while_no_other_request_comes():
    engine = Engine()
    assert [engine.step() for _ in range(5)] == [pytest.approx(0.068)] * 5


@pytest.mark.parametrize(("fixed_s", "token_s"), [(0.004, 0.001), (0.0, 0.002), (0.01, 0.0005)])
def test_steps_become_short_within_a_few_and_stay_so(fixed_s, token_s):
    engine = Engine(fixed_s, token_s)
    engine.request()
    took = [engine.step() for _ in range(40)][20:]
    assert max(took) <= 1.2 * SHORT_S
    assert sum(took) / len(took) >= 0.8 * SHORT_S


def test_where_each_step_is_too_long_it_has_one_token():
    engine = Engine(fixed_s=0.05)
    engine.request()
    for _ in range(10):
        engine.step()
    assert engine.pace.limit() == 1


def test_the_limit_ends_some_time_after_the_last_request_and_is_known_at_the_next():
    engine = Engine()
    engine.request()
    for _ in range(20):
        engine.step()
    limit = engine.pace.limit()
    engine.now_s += LATELY_S + 1
    assert engine.pace.limit() is None
    assert engine.step() == pytest.approx(0.068)
    engine.pace.came()
    assert engine.pace.limit() == pytest.approx(limit, rel=0.5)


def test_where_all_tokens_are_short_enough_all_run():
    engine = Engine(token_s=0.00001)
    engine.request()
    for _ in range(100):
        engine.step()
    assert engine.pace.limit() >= ALL


def test_steps_of_both_teach_nothing():
    engine = Engine()
    engine.request()
    engine.step()
    limit = engine.pace.limit()
    engine.pace.ran(plan(0, BACKGROUND), 1.0)
    assert engine.pace.limit() == limit
