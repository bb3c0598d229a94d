"""Prompts make a step in which others decode as long as they may, and are computed all the same."""

from __future__ import annotations

import random

import pytest
from engine_rig import Rig, alone

from pipelines.inference.engine.scheduling.prompt_pieces import LEAST, NUM_STEPS, ROUND, PromptPieces
from pipelines.wire.sampling_params import BACKGROUND, SamplingParams

PROMPT = [10 + each % 80 for each in range(150)]


class Limit(PromptPieces):
    """As if these tokens took as long as a step may."""

    def __init__(self, *limits: int) -> None:
        super().__init__(1.0)
        self.limits = limits

    def limit(self, most: int) -> int:
        return min(most, random.choice(self.limits))


def text_alone(prompt: list[int], max_tokens: int) -> list[int]:
    return alone(prompt, SamplingParams(temperature=0.0, max_tokens=max_tokens)).token_ids


def limited(*limits: int, **settings: int) -> Rig:
    rig = Rig(max_sequences=4, max_step_tokens=64, num_blocks=400, reuse_prefixes=False, **settings)
    rig.engine.scheduler.pieces = Limit(*limits)
    return rig


def test_as_many_tokens_as_fit_by_recent_steps():
    pieces = PromptPieces(0.25)
    assert pieces.limit(512) == 512
    pieces.learn(500, 0.5)
    assert pieces.limit(512) == 224  # 250, in steps of 32
    for _ in range(NUM_STEPS):
        pieces.learn(224, 0.112)
    assert pieces.limit(512) == 480
    pieces.learn(480, 30.0)  # one stalled step is no reason
    assert pieces.limit(512) == 480


def test_never_fewer_than_are_fast():
    pieces = PromptPieces(0.25)
    pieces.learn(64, 60.0)
    assert pieces.limit(512) == LEAST
    assert pieces.limit(40) == 40


def test_short_pieces_teach_nothing():
    pieces = PromptPieces(0.25)
    pieces.learn(LEAST - 1, 60.0)
    assert pieces.limit(512) == 512


def test_idle_steps_are_a_first_guess():
    pieces = PromptPieces(0.25)
    pieces.seed({1: 9.0, 64: 0.128})
    assert pieces.limit(512) == 250 // 2 // ROUND * ROUND


def test_no_time_is_no_limit():
    pieces = PromptPieces(0.0)
    pieces.learn(64, 60.0)
    assert pieces.limit(512) == 512


def test_the_engine_learns_from_its_steps_with_prompts():
    rig = Rig(max_sequences=4, max_step_tokens=100, num_blocks=400)
    learnt: list[int] = []
    rig.engine.scheduler.pieces.learn = lambda num_tokens, seconds: learnt.append(num_tokens)  # type: ignore[method-assign]
    rig.submit("a", PROMPT, max_tokens=3)
    rig.run()
    assert learnt == [100, 50, 0, 0]


def test_a_step_that_decodes_has_that_much_of_prompts():
    rig = limited(10)
    rig.submit("a", PROMPT[:60], max_tokens=30)
    rig.step()
    assert rig.steps[-1].num_tokens == 60  # none decodes yet
    rig.submit("b", PROMPT, max_tokens=2)
    rig.submit("c", PROMPT, max_tokens=2)
    rig.step()
    assert rig.steps[-1].num_tokens == 1 + 10
    rig.step()
    assert rig.steps[-1].num_tokens == 1 + 10
    rig.run()
    assert rig.texts["b", 0].token_ids == text_alone(PROMPT, 2)


def test_what_is_admitted_beside_it_is_limited_too():
    rig = limited(10)
    rig.submit("a", PROMPT[:5], max_tokens=30)
    rig.step()
    for each in range(3):
        rig.submit(each, PROMPT[:6], max_tokens=2)
    rig.step()
    assert rig.steps[-1].num_tokens == 1 + 10
    rig.step()  # the first of them decodes as well
    assert rig.steps[-1].num_tokens == 2 + 8


def test_background_may_wait():
    rig = limited(10)
    rig.submit("a", PROMPT[:5], priority=BACKGROUND, max_tokens=30)
    rig.step()
    rig.submit("b", PROMPT, max_tokens=2)
    rig.step()
    assert rig.steps[-1].num_tokens == 64


@pytest.mark.parametrize("seed", range(20))
def test_texts_are_those_that_they_have_alone(seed):
    random.seed(seed)
    rig = limited(1, 2, 7, 20, 64, num_host_blocks=20)
    prompts = {name: random.choices(range(10, 90), k=random.randint(1, 150)) for name in range(8)}
    for name, prompt in prompts.items():
        rig.submit(name, prompt, max_tokens=random.randint(1, 12))
        for _ in range(random.randint(0, 4)):
            rig.step()
    rig.run()
    for name, prompt in prompts.items():
        got = rig.texts[name, 0].token_ids
        assert got == text_alone(prompt, len(got))
