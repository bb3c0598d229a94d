"""Background sequences give way to all others, and lose nothing by it."""

from __future__ import annotations

from engine_rig import Rig, alone

from pipelines.wire.sampling_params import BACKGROUND, SamplingParams

PROMPT = list(range(10, 23))


def fill(rig: Rig, number: int, tenant: str = "batch", **params: object) -> None:
    for each in range(number):
        rig.submit(("b", each), [10 + each % 50, *PROMPT[:2]], tenant=tenant, priority=BACKGROUND, **params)


def steps_to_first_token(rig: Rig, key: object) -> int:
    for number in range(1, 1000):
        rig.step()
        if rig.texts[key, 0].token_ids:
            return number
    raise AssertionError("it has no token")


def test_others_are_answered_at_once_while_background_has_all_places():
    rig = Rig(max_sequences=8, max_step_tokens=64, num_blocks=2000)
    fill(rig, 40, max_tokens=150)
    for _ in range(4):
        rig.step()
    for key in range(8):  # more than a fair share of two tenants
        rig.submit(key, PROMPT, max_tokens=1)
    for _ in range(2):  # 104 tokens, 64 of them in a step
        rig.step()
    assert all(rig.texts[number, 0].finish is not None for number in range(8))
    assert 0 < rig.engine.counts().preemptions <= 8


def test_they_are_of_one_tenant_with_it_too():
    rig = Rig(max_sequences=4, max_step_tokens=64)
    fill(rig, 8, tenant="", max_tokens=50)
    rig.step()
    rig.submit("now", PROMPT, max_tokens=1)
    assert steps_to_first_token(rig, "now") == 1


def test_others_are_answered_at_once_while_background_has_the_whole_cache():
    rig = Rig(max_sequences=32, max_step_tokens=64, num_blocks=40, reuse_prefixes=False)
    fill(rig, 30, max_tokens=60)
    for _ in range(30):
        rig.step()
    rig.submit("now", PROMPT * 4, max_tokens=1)
    assert steps_to_first_token(rig, "now") == 1


def test_a_step_with_another_prompt_has_nothing_of_it():
    rig = Rig(max_sequences=4, max_step_tokens=16, reuse_prefixes=False)
    fill(rig, 2, max_tokens=50)
    rig.submit("long", PROMPT * 5, tenant="batch", priority=BACKGROUND, max_tokens=1)
    for _ in range(3):
        rig.step()
    rig.submit("now", PROMPT * 2, max_tokens=3)
    rig.step()
    assert (rig.steps[-1].num_tokens, rig.steps[-1].num_seqs) == (16, 1)
    rig.step()
    assert (rig.steps[-1].num_tokens, rig.steps[-1].num_seqs) == (10, 1)
    rig.step()  # it decodes: all others go on beside it
    assert rig.steps[-1].num_seqs == 4


def test_its_prompts_get_a_part_of_a_step():
    rig = Rig(max_sequences=4, max_step_tokens=16)
    for each in range(3):
        rig.submit(each, PROMPT * 3, priority=BACKGROUND, max_tokens=1)
    while rig.engine.has_work:
        rig.step()
    assert {step.num_tokens for step in rig.steps} <= {1, 2, 3, 4}


def test_its_texts_are_those_that_it_has_alone():
    rig = Rig(max_sequences=4, max_step_tokens=16, num_blocks=30, num_host_blocks=10)
    fill(rig, 6, max_tokens=25)
    for number in range(200):
        rig.step()
        if number % 7 == 0 and number < 100:
            rig.submit(number, [number % 60, *PROMPT], max_tokens=4)
    assert not rig.engine.has_work
    for key in range(6):
        prompt = [10 + key % 50, *PROMPT[:2]]
        assert (
            rig.texts[("b", key), 0].token_ids
            == alone(prompt, SamplingParams(temperature=0.0, max_tokens=25)).token_ids
        )
