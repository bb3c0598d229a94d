"""How many background tokens a step holds, under a clock and with steps of known times."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from engine_rig import Rig

from pipelines.inference.engine.scheduling.background_work import (
    BESIDE_S,
    FIRST_TOKENS,
    LEAST_S,
    MAX_RESTS,
    MIN_TOKENS,
    SHARE,
    BackgroundWork,
)
from pipelines.inference.engine.sequences.sequence import NO_SLOT
from pipelines.wire.sampling_params import BACKGROUND

DECODES = SimpleNamespace(slot=0, num_pending=1)
PROMPT = SimpleNamespace(slot=0, num_pending=9)
WAITS = SimpleNamespace(slot=NO_SLOT, num_pending=1)
FIRST_S = 0.08


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def takes(short_s: float = 0.022, token_s: float = 0.0019) -> Callable[[int], float]:
    """Seconds of a step by its background tokens."""
    return lambda num_tokens: short_s + token_s * num_tokens


def rest(work: BackgroundWork, *seconds: float) -> None:
    """Another one's prompt is computed, in steps of that many seconds."""
    for each in seconds:
        assert work.num_tokens([PROMPT]) == 0
        work.learn(0, each)
    work.num_tokens([DECODES])


def beside(work: BackgroundWork, seconds_of: Callable[[int], float], num_steps: int = 100) -> list[int]:
    """The tokens of steps beside a sequence that decodes; there are always enough."""
    tokens = []
    for _ in range(num_steps):
        tokens.append(work.num_tokens([DECODES]))
        work.learn(tokens[-1], seconds_of(tokens[-1]))
    return tokens


def settled(first_s: float = FIRST_S, most: int = 256) -> tuple[BackgroundWork, Clock, int]:
    """Work that knows its machine; and its tokens."""
    clock = Clock()
    work = BackgroundWork(most, clock)
    rest(work, first_s)
    beside(work, takes())
    return work, clock, work.num_tokens([DECODES])


def test_without_other_requests_it_has_the_most_that_it_may():
    work = BackgroundWork(7, Clock())
    for _ in range(50):
        assert work.num_tokens([]) == 7
        work.learn(7, 9.0)


@pytest.mark.parametrize("first_s", [0.08, 0.2, 0.4])
def test_steps_beside_others_take_a_part_of_a_first_token(first_s):
    work = BackgroundWork(256, Clock())
    rest(work, first_s)
    steps = [takes()(tokens) for tokens in beside(work, takes(), 300)[100:]]
    longer = [seconds for seconds in steps if seconds > SHARE * first_s]
    assert 0.1 < len(longer) / len(steps) < 0.3  # an eighth less after each, a 32nd more after the others
    assert 0.8 * SHARE * first_s < sum(steps) / len(steps) < SHARE * first_s


def test_steps_of_small_models_need_not_be_shorter_than_a_few_milliseconds():
    work, machine = BackgroundWork(256, Clock()), takes(0.001, 0.00005)
    rest(work, 0.004)
    steps = [machine(tokens) for tokens in beside(work, machine, 300)[100:]]
    assert 0.9 * LEAST_S < sum(steps) / len(steps) < LEAST_S


def test_a_step_that_takes_long_without_it_has_a_few_of_its_tokens():
    work, _, _ = settled()
    assert beside(work, takes(short_s=0.5))[-1] == MIN_TOKENS


def test_others_are_expected_for_a_while():
    work, clock, num_tokens = settled()
    clock.now_s += BESIDE_S
    assert work.num_tokens([]) == num_tokens
    clock.now_s += 0.1
    assert work.num_tokens([]) == 256
    work.learn(256, 9.0)  # a step that may be so long
    assert work.num_tokens([DECODES]) == num_tokens


def test_one_step_that_was_held_up_costs_an_eighth_for_a_few_steps():
    work, _, num_tokens = settled(first_s=0.4)
    work.learn(num_tokens, 30.0)
    after = beside(work, takes(), 10)
    assert after[0] >= num_tokens * 3 // 4
    assert max(after) >= num_tokens


def test_it_recovers_from_any_number_of_such_steps():
    work, _, num_tokens = settled(first_s=0.4)
    assert beside(work, lambda tokens: 30.0)[-1] == MIN_TOKENS
    assert max(beside(work, takes(), 200)) >= num_tokens


def test_steps_with_fewer_tokens_than_it_may_have_raise_nothing():
    work, _, num_tokens = settled()
    for _ in range(100):
        work.num_tokens([DECODES])
        work.learn(1, 0.001)
    assert work.num_tokens([DECODES]) == num_tokens


def test_first_tokens_are_the_times_of_its_rests_and_a_shorter_one_counts():
    alike, mixed = BackgroundWork(256, Clock()), BackgroundWork(256, Clock())
    for _ in range(4):
        rest(alike, *[0.1] * 4)
        rest(mixed, *[0.1] * 4)
        rest(mixed, 2.0)
        rest(mixed, *[0.5] * 4)
    assert max(beside(mixed, takes(), 300)) == max(beside(alike, takes(), 300))
    assert max(beside(alike, takes(), 300)) > settled(first_s=0.3)[2]


@pytest.mark.parametrize("other", [PROMPT, WAITS])
def test_it_rests_while_another_prompt_is_there_but_not_always(other):
    work = BackgroundWork(256, Clock())
    assert [work.num_tokens([DECODES, other]) for _ in range(2 * MAX_RESTS + 2)] == (
        2 * [*[0] * MAX_RESTS, FIRST_TOKENS]
    )


def test_rests_are_counted_in_a_row():
    work = BackgroundWork(256, Clock())
    for _ in range(3 * MAX_RESTS):
        assert work.num_tokens([PROMPT]) == 0
        assert work.num_tokens([DECODES]) == FIRST_TOKENS


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("most", [1, 64, 1024])
def test_whatever_comes_it_is_never_without_tokens_for_long(seed, most):
    chance, clock = random.Random(seed), Clock()
    work, num_rests = BackgroundWork(most, clock), 0
    for _ in range(2000):
        others = chance.choices([DECODES, PROMPT, WAITS], k=chance.choice([0, 1, 3]))
        num_tokens = work.num_tokens(others)
        num_rests = 0 if num_tokens else num_rests + 1
        assert num_rests <= MAX_RESTS
        assert not num_tokens or min(most, MIN_TOKENS) <= num_tokens <= most
        seconds = chance.choice([0.0, 0.001, 0.05, 3.0])
        clock.now_s += seconds
        work.learn(chance.randint(0, num_tokens), seconds)


def rig_of(clock: Clock, **sizes: int) -> tuple[Rig, list[tuple[int, int]]]:
    """A rig whose steps take 1 ms, and a tenth for each token, by that clock; (background tokens, tokens) of
    each step."""
    rig, seen = Rig(**sizes), []
    background = BackgroundWork(rig.engine.scheduler.settings.max_background_tokens, clock)
    rig.engine.scheduler.background = background
    learn = background.learn

    def record(num_tokens: int, seconds: float) -> None:
        seen.append((num_tokens, rig.steps[-1].num_tokens))
        clock.now_s += 0.001 + 0.0001 * seen[-1][1]
        learn(num_tokens, 0.001 + 0.0001 * seen[-1][1])

    background.learn = record  # type: ignore[method-assign]
    return rig, seen


def test_steps_beside_others_have_few_of_its_tokens_and_later_many_again():
    clock = Clock()
    rig, seen = rig_of(clock, max_sequences=9, max_step_tokens=256, num_blocks=500)
    for number in range(8):
        rig.submit(number, [10 + number] * 60, priority=BACKGROUND, max_tokens=100)
    rig.step()
    assert seen == [(64, 64)]  # a quarter of a step
    rig.submit("now", [1, 2, 3, 4, 5], max_tokens=9)
    while rig.texts["now", 0].finish is None:
        rig.step()
    assert seen[1:] == [(0, 5), *((tokens, tokens + 1) for tokens, _ in seen[2:])]
    assert [tokens for tokens, _ in seen[2:]] == [16, 16, 17, 17, 18, 18, 19, 19]
    clock.now_s += 11.0
    rig.step()
    assert seen[-1] == (64, 64)


def test_a_steady_load_of_prompts_does_not_stop_it():
    rig, _ = rig_of(Clock(), max_sequences=4, max_step_tokens=16, num_blocks=500, reuse_prefixes=False)
    rig.submit("b", [5] * 3, priority=BACKGROUND, max_tokens=4)
    rig.step()
    for number in range(5 * (MAX_RESTS + 1)):
        rig.submit(number, [number % 60] * 10, max_tokens=1)
        rig.step()
    assert rig.texts["b", 0].finish == "length"
    assert all(rig.texts[number, 0].finish for number in range(number - 3))
