"""Each thing the engine does, one at a time; the text always equals the text generated alone."""

from __future__ import annotations

import pytest
from engine_rig import Rig, alone

from pipelines.wire.sampling_params import SamplingParams

PROMPT = list(range(10, 23))


def greedy(max_tokens: int, **more: object) -> SamplingParams:
    return SamplingParams(temperature=0.0, max_tokens=max_tokens, **more)  # type: ignore[arg-type]


def test_one_request():
    rig = Rig()
    rig.submit("a", PROMPT, max_tokens=20)
    rig.run()
    text = rig.texts["a", 0]
    assert text.token_ids == alone(PROMPT, greedy(20)).token_ids
    assert text.finish == "length"
    assert all(len(output.piece.token_ids) == 1 for output in text.outputs)


def test_a_long_prompt_is_computed_in_chunks():
    rig = Rig(max_sequences=1, max_step_tokens=5)
    rig.submit("a", PROMPT, max_tokens=1)
    rig.run()
    assert [step.num_tokens for step in rig.steps] == [5, 5, 3]
    assert [step.num_logits for step in rig.steps] == [0, 0, 1]
    assert rig.texts["a", 0].token_ids == alone(PROMPT, greedy(1)).token_ids


def test_chunks_and_decoding_share_a_step():
    rig = Rig(max_sequences=2, max_step_tokens=8)
    rig.submit("a", [1, 2], max_tokens=10)
    rig.step()
    rig.submit("b", PROMPT, max_tokens=2)
    rig.step()
    assert rig.steps[-1].starts.tolist() == [0, 1, 8]
    rig.run()
    assert rig.texts["b", 0].token_ids == alone(PROMPT, greedy(2)).token_ids


def test_preemption_computes_again_and_changes_nothing():
    rig = Rig(num_blocks=10, block_tokens=4, reuse_prefixes=False)
    rig.submit("old", PROMPT, max_tokens=20)
    rig.submit("young", PROMPT[::-1], max_tokens=20)
    rig.run()
    assert rig.engine.counts().preemptions > 0
    assert rig.texts["old", 0].token_ids == alone(PROMPT, greedy(20)).token_ids
    assert rig.texts["young", 0].token_ids == alone(PROMPT[::-1], greedy(20)).token_ids


def test_the_youngest_is_preempted():
    rig = Rig(num_blocks=10, block_tokens=4)
    rig.submit("old", PROMPT, max_tokens=20)
    rig.submit("young", PROMPT[::-1], max_tokens=20)
    while not rig.engine.counts().preemptions:
        rig.step()
    assert [sequence.key for sequence in rig.engine.scheduler.waiting] == ["young"]


def test_sampling_state_survives_preemption():
    params = {"temperature": 1.0, "repetition_penalty": 1.5, "seed": 7, "max_tokens": 20}
    rig = Rig(num_blocks=10, block_tokens=4)
    rig.submit("old", PROMPT, **params)
    rig.submit("young", PROMPT[::-1], **params)
    rig.run()
    assert rig.engine.counts().preemptions > 0
    assert rig.texts["young", 0].token_ids == alone(PROMPT[::-1], SamplingParams(**params)).token_ids


def test_a_repeated_prompt_is_found_and_counted():
    rig = Rig(block_tokens=4)
    rig.submit("a", PROMPT, max_tokens=1)
    rig.run()
    rig.submit("b", PROMPT, max_tokens=5)
    rig.run()
    assert rig.texts["a", 0].num_cached == 0
    assert rig.texts["b", 0].num_cached == 12
    assert rig.engine.counts().prefix_query_tokens == 26
    assert rig.engine.counts().prefix_hit_tokens == 12
    assert rig.texts["b", 0].token_ids == alone(PROMPT, greedy(5)).token_ids


def test_one_prompt_token_is_always_computed():
    rig = Rig(block_tokens=4)
    for key in "ab":
        rig.submit(key, PROMPT[:8], max_tokens=1)
        rig.run()
    assert rig.texts["b", 0].num_cached == 4


def test_the_next_turn_finds_the_last_answer():
    rig = Rig(block_tokens=4)
    rig.submit("a", PROMPT, max_tokens=12)
    rig.run()
    turn = PROMPT + rig.texts["a", 0].token_ids + [1, 2]
    rig.submit("b", turn, max_tokens=3)
    rig.run()
    assert rig.texts["b", 0].num_cached == 24
    assert rig.texts["b", 0].token_ids == alone(turn, greedy(3)).token_ids


def test_salts_part_the_prefixes():
    rig = Rig(block_tokens=4)
    for key, salt in (("a", "x"), ("b", "y"), ("c", "x")):
        rig.submit(key, PROMPT, salt=salt, max_tokens=1)
        rig.run()
    assert [rig.texts[key, 0].num_cached for key in "abc"] == [0, 0, 12]


def test_after_a_reset_nothing_that_was_cached_is_reused():
    rig = Rig(block_tokens=4)
    rig.submit("running", PROMPT, max_tokens=12)
    rig.submit("done", PROMPT[::-1], max_tokens=1)
    for _ in range(4):
        rig.step()
    rig.engine.reset_prefix_cache()
    rig.check()
    for key, prompt in (("a", PROMPT), ("b", PROMPT[::-1])):
        rig.submit(key, prompt, max_tokens=5)
    rig.run()
    assert [rig.texts[key, 0].num_cached for key in "ab"] == [0, 0]
    assert rig.texts["running", 0].token_ids == alone(PROMPT, greedy(12)).token_ids
    rig.submit("again", PROMPT, max_tokens=5)
    rig.run()
    assert rig.texts["again", 0].num_cached == 12
    assert rig.texts["again", 0].token_ids == alone(PROMPT, greedy(5)).token_ids


def test_reuse_can_be_switched_off():
    rig = Rig(block_tokens=4, reuse_prefixes=False)
    for key in "ab":
        rig.submit(key, PROMPT, max_tokens=1)
        rig.run()
    assert rig.texts["b", 0].num_cached == 0
    assert rig.engine.counts().prefix_query_tokens == 0


def test_two_running_requests_share_the_blocks_of_a_prefix():
    rig = Rig(block_tokens=4)
    rig.submit("a", PROMPT, max_tokens=10)
    rig.step()
    used = rig.engine.counts().blocks_used
    rig.submit("b", PROMPT, max_tokens=10)
    rig.step()
    assert rig.engine.counts().blocks_used == used + 1
    rig.run()


def test_the_least_recently_used_prefix_makes_room():
    rig = Rig(num_blocks=8, block_tokens=4, max_sequences=1)
    old, used, new = [1] * 13, [2] * 13, [3] * 13
    for key, prompt in enumerate((old, used, old, new)):  # 3 full blocks each, 2 of the pool are empty
        rig.submit(key, prompt, max_tokens=1)
        rig.run()
    for key, prompt in (("old", old), ("used", used)):
        rig.submit(key, prompt, max_tokens=1)
        rig.run()
    assert rig.texts["old", 0].num_cached == 12
    assert rig.texts["used", 0].num_cached < 12


def test_a_prefix_loses_its_end_before_its_beginning():
    rig = Rig(num_blocks=8, block_tokens=4, max_sequences=1)
    rig.submit("a", [1] * 21, max_tokens=1)
    rig.run()
    rig.submit("b", [2] * 17, max_tokens=1)
    rig.run()
    rig.submit("c", [1] * 21, max_tokens=1)
    rig.run()
    assert rig.texts["c", 0].num_cached == 12


def test_n_choices_compute_the_prompt_once_and_share_it():
    rig = Rig(max_sequences=3, max_step_tokens=20)
    rig.submit("a", PROMPT, n=3, max_tokens=6)
    rig.step()
    assert rig.steps[0].num_tokens == len(PROMPT)
    assert rig.steps[0].logit_indices.tolist() == [12, 12, 12]
    assert rig.engine.counts().blocks_used == 4
    rig.run()
    assert rig.engine.counts().prompt_tokens == len(PROMPT)
    want = alone(PROMPT, greedy(6)).token_ids
    assert [rig.texts["a", choice].token_ids for choice in range(3)] == [want] * 3


def test_whoever_writes_first_into_a_shared_block_gets_a_copy_and_the_last_owner_needs_none():
    rig = Rig(max_sequences=3, max_step_tokens=20)
    rig.submit("a", PROMPT, n=3, max_tokens=6)
    rig.step()
    shared = rig.engine.scheduler.running[0].blocks[-1]
    rig.step()
    assert rig.steps[1].copies[:, 0].tolist() == [shared, shared]
    assert rig.engine.scheduler.running[2].blocks[-1] == shared
    rig.step()
    assert len(rig.steps[2].copies) == 0
    rig.run()


def test_a_fork_preempts_no_one_when_its_copies_just_fit():
    rig = Rig(num_blocks=5, block_tokens=4)
    rig.submit("a", PROMPT, n=2, max_tokens=4)
    rig.run()
    assert len(rig.steps[1].copies) == 1
    assert rig.engine.counts().preemptions == 0


def test_every_choice_says_how_much_of_its_prompt_was_found():
    rig = Rig(block_tokens=4)
    rig.submit("a", PROMPT, max_tokens=1)
    rig.run()
    rig.submit("b", PROMPT, n=2, max_tokens=2)
    rig.run()
    assert [rig.texts["b", choice].num_cached for choice in range(2)] == [12, 12]


def test_a_row_that_nobody_holds_is_neutral_for_the_sampler():
    rig = Rig()
    rig.submit("a", PROMPT, max_tokens=2, temperature=1.0, repetition_penalty=2.0, logprobs=3)
    rig.step()
    slot = rig.engine.scheduler.running[0].slot
    rig.run()
    slots = rig.engine.scheduler.tables.sampling
    assert (slots.draws.temperature[slot], slots.num_logprobs[slot], slots.edits[slot]) == (0.0, -1, None)


def test_a_prompt_that_fills_its_blocks_is_shared_without_copies():
    rig = Rig(max_sequences=3, max_step_tokens=20)
    rig.submit("a", PROMPT[:12], n=3, max_tokens=6)
    rig.run()
    assert sum(len(step.copies) for step in rig.steps) == 0


def test_sampled_choices_differ_and_each_equals_itself_alone():
    params = {"temperature": 1.0, "seed": 11, "max_tokens": 12}
    rig = Rig()
    rig.submit("a", PROMPT, n=3, **params)
    rig.run()
    texts = [rig.texts["a", choice].token_ids for choice in range(3)]
    assert texts == [alone(PROMPT, SamplingParams(**params), choice).token_ids for choice in range(3)]
    assert len({tuple(text) for text in texts}) == 3


def test_several_prompts_number_their_choices_in_order():
    rig = Rig()
    rig.submit("a", PROMPT, PROMPT[::-1], n=2, max_tokens=4)
    rig.run()
    texts = [rig.texts["a", choice].token_ids for choice in range(4)]
    forth, back = alone(PROMPT, greedy(4)).token_ids, alone(PROMPT[::-1], greedy(4)).token_ids
    assert texts == [forth, forth, back, back]


def test_a_group_preempted_before_its_fork_comes_back_as_one():
    rig = Rig(max_sequences=3, max_step_tokens=4, num_blocks=12, block_tokens=4)
    rig.submit("a", PROMPT, n=2, max_tokens=20)
    rig.step()
    rig.engine.scheduler._preempt(rig.engine.scheduler.running[-1])
    assert rig.engine.counts().running == 0
    assert rig.engine.counts().waiting == 2
    rig.run()
    want = alone(PROMPT, greedy(20)).token_ids
    assert [rig.texts["a", choice].token_ids for choice in range(2)] == [want] * 2


@pytest.mark.parametrize("num_steps", [0, 1, 6])
def test_abort_frees_within_the_call(num_steps):
    rig = Rig(max_step_tokens=8)
    rig.submit("a", PROMPT, n=3, max_tokens=50)
    for _ in range(num_steps):
        rig.step()
    rig.cancel("a")
    counts = rig.engine.counts()
    assert (counts.running, counts.waiting, counts.blocks_used) == (0, 0, 0)
    assert not rig.engine.has_work
    assert rig.engine.step() == []


@pytest.mark.parametrize("choice", [0, 1, 2])
@pytest.mark.parametrize("num_steps", [0, 1, 2, 5])
def test_one_choice_may_go_and_the_others_stay(choice, num_steps):
    rig = Rig(max_step_tokens=8)
    rig.submit("a", PROMPT, n=3, max_tokens=9, temperature=1.0, seed=3)
    for _ in range(num_steps):
        rig.step()
    rig.cancel("a", choice)
    rig.run()
    params = SamplingParams(temperature=1.0, seed=3, max_tokens=9)
    for other in {0, 1, 2} - {choice}:
        assert rig.texts["a", other].token_ids == alone(PROMPT, params, other).token_ids
    assert rig.texts["a", choice].finish is None


def test_aborting_what_is_gone_is_no_error():
    rig = Rig()
    rig.submit("a", PROMPT, max_tokens=1)
    rig.run()
    rig.cancel("a")
    rig.cancel("never")
    rig.submit("b", PROMPT, max_tokens=1)
    rig.cancel("b", 5)
    assert rig.engine.has_work


def test_an_end_token_of_the_model_ends_and_is_the_last_of_the_ids():
    want = alone(PROMPT, greedy(10)).token_ids
    rig = Rig(eos_token_ids=frozenset({want[3]}))
    rig.submit("a", PROMPT, max_tokens=10)
    rig.run()
    text = rig.texts["a", 0]
    assert text.token_ids == want[: want.index(want[3]) + 1]
    assert (text.finish, text.stop_token_id) == ("stop", None)


def test_ignore_eos_goes_on_to_the_length():
    want = alone(PROMPT, greedy(10)).token_ids
    rig = Rig(eos_token_ids=frozenset({want[3]}))
    rig.submit("a", PROMPT, max_tokens=10, ignore_eos=True)
    rig.run()
    assert rig.texts["a", 0].token_ids == want
    assert rig.texts["a", 0].finish == "length"


def test_a_stop_token_ends_and_is_named():
    want = alone(PROMPT, greedy(10)).token_ids
    rig = Rig()
    rig.submit("a", PROMPT, max_tokens=10, stop_token_ids=[want[3]])
    rig.run()
    text = rig.texts["a", 0]
    assert text.token_ids == want[: want.index(want[3]) + 1]
    assert (text.finish, text.stop_token_id) == ("stop", want[3])


def test_the_context_ends_the_text():
    rig = Rig(max_context=20)
    rig.submit("a", PROMPT, max_tokens=100)
    rig.run()
    assert len(rig.texts["a", 0].token_ids) == 7
    assert rig.texts["a", 0].finish == "length"


def test_the_cache_ends_the_text_when_it_is_smaller_than_the_context():
    rig = Rig(num_blocks=4, block_tokens=4, max_context=200)
    rig.submit("a", PROMPT, max_tokens=100)
    rig.run()
    assert len(rig.texts["a", 0].token_ids) == 4  # 13 + 4 = 17: the last is never cached
    assert rig.texts["a", 0].finish == "length"


def test_logprobs_come_with_their_tokens_and_only_when_asked_for():
    rig = Rig()
    rig.submit("a", PROMPT, max_tokens=2, logprobs=2)
    rig.submit("b", PROMPT, max_tokens=2)
    rig.run()
    assert [len(output.piece.logprobs.tokens) for output in rig.texts["a", 0].outputs] == [1, 1]
    assert rig.texts["a", 0].outputs[0].piece.logprobs.tokens[0].top_ids[0] == rig.texts["a", 0].token_ids[0]
    assert [output.piece.logprobs for output in rig.texts["b", 0].outputs] == [None, None]


def test_counts_add_up():
    rig = Rig(max_sequences=1, max_step_tokens=8)
    rig.submit("a", PROMPT, max_tokens=3)
    rig.submit("b", PROMPT, max_tokens=3)
    rig.step()
    counts = rig.engine.counts()
    assert (counts.running, counts.waiting) == (1, 1)
    assert (counts.blocks_used, counts.blocks_total) == (2, 64)
    rig.run()
    counts = rig.engine.counts()
    assert (counts.steps, counts.step_tokens) == (len(rig.steps), sum(step.num_tokens for step in rig.steps))
    assert (counts.prompt_tokens, counts.output_tokens) == (26, 6)
