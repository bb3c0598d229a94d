"""Preemption by swapping: what was computed waits in host memory, and no token is computed twice."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import pytest
from engine_rig import Rig, alone

from pipelines.inference.contracts.step import Step
from pipelines.inference.engine.sequences.sequence import Sequence
from pipelines.wire.sampling_params import SamplingParams

PROMPT = list(range(10, 23))
LONG = list(range(30, 60))
NUM_TOKENS = 20
COMPUTED = 2 * (len(PROMPT) + NUM_TOKENS - 1)  # by `crowded`, if nothing is computed twice


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL, logger="pipelines.inference.engine.generation_engine")


def crowded(num_host_blocks: int = 8, reuse_prefixes: bool = False, **params: object) -> Rig:
    """Two requests that fit together only at first: "young" must leave with 20 tokens in 5 blocks.

    With `reuse_prefixes` the first 2 of them are still on the device when it comes back.
    """
    rig = Rig(
        max_step_tokens=40,
        num_blocks=10,
        reuse_prefixes=reuse_prefixes,
        num_host_blocks=num_host_blocks,
    )
    for key, prompt in (("old", PROMPT), ("young", PROMPT[::-1])):
        rig.submit(key, prompt, max_tokens=NUM_TOKENS, **params)
    return rig


def group(settled: bool) -> Rig:
    """Three choices of one prompt, set back when 16 of its 30 tokens were computed; an old request goes on.

    Their 4 blocks are on the host, if `settled`; else the next step is to move them there.
    """
    rig = Rig(max_step_tokens=17, reuse_prefixes=False, num_host_blocks=8)
    rig.submit("old", PROMPT, max_tokens=NUM_TOKENS)
    rig.step()
    rig.submit("a", LONG, n=3, max_tokens=4)
    rig.step()
    rig.preempt()
    if settled:
        step_without_admission(rig)
    return rig


GROUP_COMPUTED = COMPUTED // 2 + len(LONG) + 3 * 3  # by `group`, if nothing is computed twice


def step_without_admission(rig: Rig) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipelines.inference.engine.scheduling.scheduler.may_admit", lambda *numbers: False)
        rig.step()


def until(rig: Rig, reached: Callable[[], bool]) -> None:
    while not reached():
        rig.step()


def swapped_out(rig: Rig) -> None:
    """Until the step has run that swapped "young" out."""
    until(rig, lambda: rig.engine.counts().swapped_out_blocks > 0)


def next_swaps_in(rig: Rig) -> None:
    """Until "old" is through, so that the next step swaps "young" in."""
    swapped_out(rig)
    until(rig, lambda: rig.texts["old", 0].finish is not None)
    assert rig.engine.counts().swapped == 1


def next_swaps_out(rig: Rig) -> None:
    """Until the next step must preempt "young"."""
    until(rig, lambda: len(rig.texts["young", 0].token_ids) == 8)
    assert rig.engine.counts().running == 2


def lose(rig: Rig, when: str, error: BaseException) -> None:
    """The next step raises, before anything was moved or after all is computed; later ones do not."""

    def fail(step: Step) -> None:
        setattr(rig, when, lambda step: None)
        raise error

    setattr(rig, when, fail)


def interrupt(rig: Rig, when: str) -> None:
    lose(rig, when, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        rig.engine.step()
    rig.check()


def find(rig: Rig, key: str, choice: int = 0) -> Sequence:
    return rig.engine._active._requests[key][choice]


def check_texts(rig: Rig, *keys: str, **params: object) -> None:
    wanted = SamplingParams(**{"temperature": 0.0, "max_tokens": NUM_TOKENS, **params})  # type: ignore[arg-type]
    for key in keys or ("old", "young"):
        prompt = PROMPT if key == "old" else PROMPT[::-1]
        assert rig.texts[key, 0].token_ids == alone(prompt, wanted).token_ids


def check_choices(rig: Rig, *choices: int) -> None:
    want = alone(LONG, SamplingParams(temperature=0.0, max_tokens=4)).token_ids
    assert [rig.texts["a", choice].token_ids for choice in choices] == [want] * len(choices)


def test_what_was_swapped_out_comes_back_and_is_not_computed_again():
    rig = crowded()
    rig.run()
    counts = rig.engine.counts()
    assert (counts.preemptions, counts.swap_preemptions) == (1, 1)
    assert (counts.swapped_out_blocks, counts.swapped_in_blocks) == (5, 5)
    assert counts.step_tokens == COMPUTED
    check_texts(rig)


@pytest.mark.parametrize("num_host_blocks", [0, 4])
def test_without_room_on_the_host_it_is_computed_again(num_host_blocks):
    rig = crowded(num_host_blocks)
    rig.run()
    counts = rig.engine.counts()
    assert (counts.preemptions, counts.swap_preemptions) == (1, 0)
    assert counts.swapped_out_blocks == 0
    assert counts.step_tokens == COMPUTED + 20
    check_texts(rig)


def test_its_blocks_are_overwritten_in_the_very_step_that_swaps_them_out():
    rig = crowded()
    swapped_out(rig)
    (step,) = [step for step in rig.steps if len(step.swaps_out)]
    assert np.isin(step.swaps_out[:, 0], step.block_table).any()


def test_counts_say_what_lies_on_the_host():
    rig = crowded()
    swapped_out(rig)
    counts = rig.engine.counts()
    assert (counts.running, counts.waiting, counts.swapped) == (1, 1, 1)
    assert (counts.host_blocks_used, counts.host_blocks_total) == (5, 8)


def test_what_is_still_on_the_device_is_not_swapped_in():
    rig = crowded(reuse_prefixes=True)
    rig.run()
    counts = rig.engine.counts()
    assert (counts.swapped_out_blocks, counts.swapped_in_blocks) == (5, 3)
    assert counts.step_tokens == COMPUTED
    check_texts(rig)


@pytest.mark.parametrize("settled", [False, True])
def test_nothing_is_swapped_in_when_all_is_still_on_the_device(settled):
    rig = Rig(max_step_tokens=40, num_host_blocks=8)
    for key, prompt in (("old", PROMPT), ("young", PROMPT[::-1])):
        rig.submit(key, prompt, max_tokens=NUM_TOKENS)
    for _ in range(4):
        rig.step()
    rig.preempt()  # 16 tokens in 4 full blocks
    if settled:
        step_without_admission(rig)
    rig.run()
    counts = rig.engine.counts()
    assert (counts.swapped_out_blocks, counts.swapped_in_blocks) == (4 * settled, 0)
    assert counts.step_tokens == COMPUTED
    check_texts(rig)


def test_sampling_state_survives():
    params = {"temperature": 1.0, "repetition_penalty": 1.5, "seed": 7}
    rig = crowded(**params)
    rig.run()
    assert rig.engine.counts().swapped_in_blocks == 5
    check_texts(rig, **params)


def test_blocks_that_choices_share_are_swapped_for_each():
    rig = Rig(num_blocks=11, block_tokens=4, reuse_prefixes=False, num_host_blocks=20)
    rig.submit("a", LONG[:20], n=3, max_tokens=16)
    rig.run()
    assert rig.engine.counts().swap_preemptions > 0
    assert rig.engine.counts().step_tokens == 20 + 3 * 15
    want = alone(LONG[:20], SamplingParams(temperature=0.0, max_tokens=16)).token_ids
    assert [rig.texts["a", choice].token_ids for choice in range(3)] == [want] * 3


def test_a_group_in_the_middle_of_its_prompt_is_swapped_as_one():
    rig = group(settled=True)
    counts = rig.engine.counts()
    assert (counts.running, counts.waiting, counts.swapped) == (1, 3, 3)
    assert counts.host_blocks_used == 4
    rig.run()
    assert rig.engine.counts().swapped_in_blocks == 4
    assert rig.engine.counts().step_tokens == GROUP_COMPUTED
    check_texts(rig, "old")
    check_choices(rig, 0, 1, 2)


@pytest.mark.parametrize("gone", [0, 1])
@pytest.mark.parametrize("moment", ["swapping_out", "settled", "swapping_in"])
def test_a_group_keeps_its_host_blocks_when_one_choice_goes(gone, moment):
    rig = group(settled=moment != "swapping_out")
    if moment == "swapping_in":
        interrupt(rig, "after")
    rig.cancel("a", gone)
    assert len(find(rig, "a", 1 - gone).host_blocks) == 4
    if moment == "swapping_out":
        step_without_admission(rig)
    rig.run()
    assert rig.engine.counts().swapped_in_blocks == 4
    assert rig.engine.counts().step_tokens == GROUP_COMPUTED - 3
    check_choices(rig, *{0, 1, 2} - {gone})


def test_an_heir_says_how_much_of_the_prompt_was_found_at_first():
    rig = Rig(num_host_blocks=8)
    rig.submit("before", LONG[:8], max_tokens=2)
    rig.run()
    rig.submit("a", LONG, n=2, max_tokens=4)
    rig.step()
    rig.preempt()
    rig.cancel("a", 0)
    rig.run()
    assert rig.texts["a", 1].num_cached == 8
    assert rig.engine.counts().prompt_tokens == 8 + len(LONG)


def test_abort_frees_host_blocks_at_once():
    rig = crowded()
    swapped_out(rig)
    rig.cancel("young")
    assert rig.engine.counts().host_blocks_used == 0
    rig.run()
    check_texts(rig, "old")


def test_abort_before_the_step_that_would_swap_out_takes_it_back():
    rig = crowded()
    for _ in range(6):
        rig.step()
    rig.preempt()
    assert rig.engine.counts().host_blocks_used == 5
    rig.cancel("young")
    assert rig.engine.counts().host_blocks_used == 0
    rig.run()
    assert rig.engine.counts().swapped_out_blocks == 0


@pytest.mark.parametrize("when", ["before", "after"])
def test_who_a_failed_step_swapped_out_is_computed_again(when):
    rig = crowded()
    next_swaps_out(rig)
    lose(rig, when, RuntimeError("device lost"))
    assert [(output.key, output.piece.finish) for output in rig.step()] == [("old", "error")]
    counts = rig.engine.counts()
    assert (counts.swap_preemptions, counts.waiting, counts.swapped) == (1, 1, 0)
    assert counts.host_blocks_used == 0
    rig.run()
    assert rig.engine.counts().swapped_in_blocks == 0
    check_texts(rig, "young")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_failed_step_ends_who_it_swapped_in_and_frees_its_host_blocks(when):
    rig = crowded()
    next_swaps_in(rig)
    lose(rig, when, RuntimeError("device lost"))
    assert [(output.key, output.piece.finish) for output in rig.step()] == [("young", "error")]
    assert rig.engine.counts().host_blocks_used == 0
    rig.submit("next", PROMPT[::-1], max_tokens=NUM_TOKENS)
    rig.run()
    check_texts(rig, "next")


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupted_swap_in_is_made_again(when):
    rig = crowded()
    next_swaps_in(rig)
    interrupt(rig, when)
    assert len(find(rig, "young").host_blocks) == 5
    rig.run()
    assert rig.engine.counts().swapped_in_blocks == 5
    assert rig.engine.counts().step_tokens == COMPUTED
    check_texts(rig)


@pytest.mark.parametrize("reuse_prefixes", [False, True])
def test_who_is_set_back_before_the_swap_in_is_through_keeps_its_host_blocks(reuse_prefixes):
    rig = crowded(5, reuse_prefixes)
    next_swaps_in(rig)
    interrupt(rig, "after")
    rig.preempt()
    assert rig.engine.counts().swapped == 1
    rig.run()
    counts = rig.engine.counts()
    assert (counts.swap_preemptions, counts.swapped_out_blocks) == (2, 5)
    assert counts.swapped_in_blocks == (3 if reuse_prefixes else 5)
    assert counts.step_tokens == COMPUTED
    check_texts(rig)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupted_swap_out_is_computed_again_and_harms_no_one(when):
    rig = crowded()
    next_swaps_out(rig)
    interrupt(rig, when)
    assert rig.engine.counts().host_blocks_used == 0
    rig.run()
    assert rig.engine.counts().step_tokens == COMPUTED + 20
    check_texts(rig)


def test_who_comes_back_before_the_step_that_would_swap_out_is_computed_again():
    rig = group(settled=False)
    rig.run()
    assert rig.engine.counts().swapped_out_blocks == 0
    assert rig.engine.counts().step_tokens == GROUP_COMPUTED + 16
    check_choices(rig, 0, 1, 2)


@pytest.mark.parametrize("forgotten", ["swaps_out", "swaps_in"])
def test_a_forgotten_swap_changes_the_text(forgotten):
    rig = crowded()
    step_of = rig.engine._body

    def forget(context):
        object.__setattr__(context.step, forgotten, context.step.swaps_in[:0])
        return step_of(context)

    rig.engine._body = forget
    rig.run()
    check_texts(rig, "old")
    with pytest.raises(AssertionError):
        check_texts(rig, "young")
