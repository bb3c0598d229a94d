"""How many background tokens a step holds, under a clock and with steps of known times."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace

import pytest
from engine_rig import Rig

from pipelines.host.engine.background_work import BESIDE_S, MAX_RESTS, WIDE, BackgroundWork
from pipelines.host.engine.sequence import NO_SLOT
from pipelines.wire.sampling_params import BACKGROUND

DECODES = SimpleNamespace(slot=0, num_pending=1)
PROMPT = SimpleNamespace(slot=0, num_pending=9)
WAITS = SimpleNamespace(slot=NO_SLOT, num_pending=1)


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def known(short_s: float = 0.02, token_s: float = 0.001, most: int = 256) -> tuple[BackgroundWork, Clock]:
    """Background work whose steps take `short_s` at least and `token_s` for each token."""
    clock = Clock()
    work = BackgroundWork(most, clock)
    work.seed({1: short_s})
    work.learn(100, 100 * token_s)
    return work, clock


def test_without_a_measured_step_it_has_the_most_that_it_may():
    assert BackgroundWork(7, Clock()).num_tokens([]) == 7
    assert BackgroundWork(7, Clock()).num_tokens([DECODES]) == 7


def test_beside_others_a_step_is_longer_by_one_and_a_half_short_ones():
    work, _ = known()
    assert work.num_tokens([]) == 160  # 0.16 s
    assert work.num_tokens([DECODES]) == 30  # 0.03 s


def test_others_are_expected_for_a_while():
    work, clock = known()
    work.num_tokens([DECODES])
    clock.now_s += BESIDE_S
    assert work.num_tokens([]) == 30
    clock.now_s += 0.1
    assert work.num_tokens([]) == 160


def test_steps_of_small_models_need_not_be_shorter_than_a_few_milliseconds():
    work, _ = known(short_s=0.0005, token_s=0.0001)
    assert (work.num_tokens([]), work.num_tokens([DECODES])) == (256, 30)


def test_a_slow_step_counts_only_until_others_were_measured():
    work, _ = known(token_s=1.0)
    assert work.num_tokens([DECODES]) == WIDE  # not so few that no later step is measured
    for _ in range(2):
        work.learn(WIDE, 0.001 * WIDE)
    assert work.num_tokens([DECODES]) == 30


def test_a_step_of_a_new_shape_changes_nothing():
    work, _ = known()
    for _ in range(8):
        work.learn(100, 0.1)
    work.learn(101, 30.0)
    work.learn(1, 9.0)
    assert work.num_tokens([DECODES]) == 30


@pytest.mark.parametrize("other", [PROMPT, WAITS])
def test_it_rests_while_another_prompt_is_there_but_not_always(other):
    work, _ = known()
    assert [work.num_tokens([DECODES, other]) for _ in range(2 * MAX_RESTS + 2)] == (
        2 * [*[0] * MAX_RESTS, 30]
    )


def test_rests_are_counted_in_a_row():
    work, _ = known()
    for _ in range(3 * MAX_RESTS):
        assert work.num_tokens([PROMPT]) == 0
        assert work.num_tokens([DECODES]) == 30


def rig_of(clock: Clock, **sizes: int) -> Rig:
    """A rig whose steps take 1 ms, and a tenth for each token, by that clock."""
    rig = Rig(**sizes)
    background = BackgroundWork(rig.engine.scheduler.settings.max_background_tokens, clock)
    background.seed({1: 0.001})
    rig.engine.scheduler.background = background

    def learn(num_tokens: int, seconds: float) -> None:
        clock.now_s += 0.001 + 0.0001 * num_tokens
        background._token_s = deque([0.0001])

    background.learn = learn  # type: ignore[method-assign]
    return rig


def test_steps_beside_others_have_few_of_its_tokens_and_later_many_again():
    rig = rig_of(Clock(), max_sequences=9, max_step_tokens=256, num_blocks=500)
    for each in range(8):
        rig.submit(each, [10 + each] * 60, priority=BACKGROUND, max_tokens=400)
    rig.step()
    assert rig.steps[-1].num_tokens == 64  # a quarter of a step: nothing is known yet
    rig.submit("now", [1, 2, 3, 4, 5], max_tokens=5)
    tokens = []
    while rig.texts["now", 0].finish is None:
        rig.step()
        tokens.append(rig.steps[-1].num_tokens)
    assert tokens == [5, 31, 31, 31, 31]  # its prompt alone, then its token and 3 ms of the others
    rig.step()
    assert rig.steps[-1].num_tokens == 30
    rig.engine.scheduler.background._clock.now_s += 11.0
    rig.step()
    assert rig.steps[-1].num_tokens == 64


def test_a_steady_load_of_prompts_does_not_stop_it():
    rig = rig_of(Clock(), max_sequences=4, max_step_tokens=16, num_blocks=500, reuse_prefixes=False)
    rig.submit("b", [5] * 3, priority=BACKGROUND, max_tokens=4)
    rig.step()
    for number in range(5 * (MAX_RESTS + 1)):
        rig.submit(number, [number % 60] * 10, max_tokens=1)
        rig.step()
    assert rig.texts["b", 0].finish == "length"
    assert all(rig.texts[number, 0].finish for number in range(number - 3))
