"""Tenants take turns: one with many sequences delays the others by little, and none starves."""

from __future__ import annotations

import random

import pytest
from breadth import after
from engine_rig import Rig, alone
from test_engine_fairness import order_of_first_tokens

from pipelines.wire.sampling_params import SamplingParams

PROMPT = list(range(10, 23))


def fill(rig: Rig, tenant: str, number: int, **params: object) -> None:
    for each in range(number):
        rig.submit((tenant, each), [10 + each % 50, *PROMPT[:2]], tenant=tenant, **params)


def steps_until(rig: Rig, key: object) -> int:
    for number in range(1, 1000):
        rig.step()
        if rig.texts[key, 0].finish is not None:
            return number
    raise AssertionError("it did not end")


def running(rig: Rig, tenant: str) -> int:
    return sum(one.request.tenant == tenant for one in rig.engine.scheduler.running)


def test_a_short_request_is_answered_at_once_while_another_tenant_has_all_places_and_waits_for_more():
    rig = Rig(max_sequences=8, max_step_tokens=64, num_blocks=2000)
    fill(rig, "a", 40, max_tokens=150)
    for _ in range(4):
        rig.step()
    assert running(rig, "a") == 8
    rig.submit("b", PROMPT, tenant="b", max_tokens=1)
    assert steps_until(rig, "b") == 1
    assert rig.engine.counts().preemptions == 1


def test_a_short_request_is_answered_soon_while_another_tenant_has_the_whole_cache():
    rig = Rig(max_sequences=32, max_step_tokens=64, num_blocks=40, reuse_prefixes=False)
    fill(rig, "a", 30, max_tokens=60)
    for _ in range(30):
        rig.step()
    assert running(rig, "a") < 20
    rig.submit("b", PROMPT, tenant="b", max_tokens=8)
    assert steps_until(rig, "b") <= 9


def test_a_short_prompt_is_computed_beside_a_long_one_of_another_tenant():
    rig = Rig(max_sequences=4, max_step_tokens=16)
    rig.submit("decodes", [7], tenant="a", max_tokens=100)
    rig.step()
    rig.submit("long", PROMPT * 12, tenant="a", max_tokens=1)
    rig.step()
    rig.submit("b", PROMPT[:6], tenant="b", max_tokens=1)
    assert steps_until(rig, "b") == 1
    assert steps_until(rig, "long") > 5


def test_the_same_tenant_waits_for_its_own():
    rig = Rig(max_sequences=8, max_step_tokens=64, num_blocks=2000)
    fill(rig, "a", 10, max_tokens=50)
    rig.step()
    rig.submit("last", PROMPT, tenant="a", max_tokens=1)
    assert steps_until(rig, "last") >= 50
    rig.run()
    assert rig.engine.counts().preemptions == 0


def test_two_greedy_tenants_share_the_places():
    rig = Rig(max_sequences=8, max_step_tokens=64, num_blocks=2000)
    fill(rig, "a", 30, max_tokens=100)
    rig.step()
    fill(rig, "b", 30, max_tokens=100)
    for _ in range(5):
        rig.step()
    assert (running(rig, "a"), running(rig, "b")) == (4, 4)
    preemptions = rig.engine.counts().preemptions
    for _ in range(60):
        rig.step()
    assert rig.engine.counts().preemptions == preemptions == 4


def test_a_third_tenant_takes_of_both():
    rig = Rig(max_sequences=9, max_step_tokens=64, num_blocks=2000)
    for tenant in "abc":
        fill(rig, tenant, 30, max_tokens=100)
        for _ in range(3):
            rig.step()
    assert [running(rig, tenant) for tenant in "abc"] == [3, 3, 3]


def test_tenants_take_turns_and_each_is_served_in_the_order_of_arrival():
    rig = Rig(max_sequences=1, max_step_tokens=16)
    for key in ("a1", "a2", "a3", "b1", "b2", "c1"):
        rig.submit(key, PROMPT[:3], tenant=key[0], max_tokens=2)
    first = order_of_first_tokens(rig)
    assert [[key for key in first if key[0] == tenant] for tenant in "abc"] == [
        ["a1", "a2", "a3"],
        ["b1", "b2"],
        ["c1"],
    ]


def test_priority_goes_before_turns():
    rig = Rig(max_sequences=4, max_step_tokens=64, num_blocks=200)
    fill(rig, "a", 8, max_tokens=30)
    rig.step()
    rig.submit("b", PROMPT, tenant="b", max_tokens=1, priority=1)
    for _ in range(20):
        rig.step()
    assert rig.texts["b", 0].finish is None
    assert rig.engine.counts().preemptions == 0
    rig.run()


def test_the_first_in_turn_is_never_preempted():
    rig = Rig(max_sequences=1, max_step_tokens=16)
    rig.submit("a", PROMPT[:3], tenant="a", max_tokens=20)
    rig.step()
    rig.submit("b", PROMPT[:3], tenant="b", max_tokens=1)
    rig.run()
    assert rig.engine.counts().preemptions == 0


@pytest.mark.parametrize("seed", after(1, range(4)))
def test_random_loads_of_several_tenants_give_the_text_of_each_alone(seed: int):
    draw = random.Random(seed)
    rig = Rig(
        max_sequences=draw.choice([2, 5, 8]),
        max_step_tokens=draw.choice([12, 40]),
        num_blocks=draw.choice([30, 200]),
        num_host_blocks=draw.choice([0, 20]),
    )
    wanted = {}
    for key in range(24):
        prompt = [draw.randrange(97) for _ in range(draw.randint(1, 20))]
        params = {"max_tokens": draw.randint(1, 25), "priority": draw.choice([0, 0, 0, 1])}
        n = draw.choice([1, 1, 1, 2, 3, 9])
        rig.submit(key, prompt, n=n, tenant=draw.choice("aaab"), **params)
        wanted[key] = alone(prompt, SamplingParams(temperature=0.0, **params)).token_ids, n
        for _ in range(draw.randint(0, 3)):
            rig.step()
    rig.run()
    for key, (token_ids, n) in wanted.items():
        assert all(rig.texts[key, choice].token_ids == token_ids for choice in range(n))
