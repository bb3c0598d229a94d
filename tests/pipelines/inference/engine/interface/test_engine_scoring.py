"""Scores of prompts: equal to those computed alone, in bounded steps, handed out once."""

from __future__ import annotations

import pytest
from engine_rig import Rig, alone, scores_alone

from pipelines.base.errors import RequestError
from pipelines.inference.engine.interface.engine_contract import GenerationRequest
from pipelines.inference.engine.interface.submission_checks import MAX_SCORES
from pipelines.wire.sampling_params import SamplingParams

PROMPT = list(range(10, 40))


def wanted(k: int = 2) -> object:
    return scores_alone(PROMPT, SamplingParams(prompt_logprobs=k))


def test_a_step_gives_no_more_rows_of_logits_than_it_may():
    rig = Rig(max_step_tokens=64, max_scored_tokens=8)
    rig.submit("a", PROMPT, prompt_logprobs=2, max_tokens=1)
    rig.run()
    assert [step.num_scored for step in rig.steps] == [8, 8, 8, 5, 0]
    assert [step.num_sampled for step in rig.steps] == [0, 0, 0, 0, 1]
    assert rig.texts["a", 0].prompt_logprobs == wanted()


def test_who_decodes_is_not_delayed_by_a_prompt_that_is_scored():
    rig = Rig(max_step_tokens=16, max_scored_tokens=4)
    rig.submit("talks", PROMPT[:3], max_tokens=20)
    rig.step()
    rig.submit("a", PROMPT, prompt_logprobs=2, max_tokens=1)
    while rig.texts["a", 0].finish is None:
        assert "talks" in {output.key for output in rig.step()}


def test_two_prompts_share_the_rows_first_come_first():
    rig = Rig(max_step_tokens=64, max_scored_tokens=20)
    for key in "ab":
        rig.submit(key, PROMPT, prompt_logprobs=0, max_tokens=1)
    rig.run()
    assert [step.num_scored for step in rig.steps] == [20, 20, 18, 0]
    assert rig.texts["a", 0].prompt_logprobs == rig.texts["b", 0].prompt_logprobs == wanted(0)


def test_what_the_prefix_cache_holds_is_scored_all_the_same():
    rig = Rig()
    rig.submit("a", PROMPT, max_tokens=3)
    rig.run()
    rig.submit("b", PROMPT, max_tokens=3, prompt_logprobs=2)
    rig.run()
    assert rig.texts["b", 0].prompt_logprobs == wanted()
    assert rig.texts["b", 0].num_cached == 0
    assert rig.texts["b", 0].token_ids == rig.texts["a", 0].token_ids


def test_what_was_scored_may_be_reused_by_others_and_by_itself_after_a_preemption():
    rig = Rig(max_step_tokens=64, max_scored_tokens=8)
    rig.submit("a", PROMPT, max_tokens=3, prompt_logprobs=2)
    rig.step()
    rig.step()
    rig.preempt()
    rig.run()
    assert sum(step.num_scored for step in rig.steps) == len(PROMPT) - 1
    assert sum(step.num_tokens for step in rig.steps) == len(PROMPT) + 2  # nothing was computed twice
    rig.submit("b", PROMPT, max_tokens=1)
    rig.run()
    assert rig.texts["b", 0].num_cached == 28
    assert rig.texts["a", 0].prompt_logprobs == wanted()


def test_what_is_computed_again_is_not_scored_again():
    rig = Rig(max_step_tokens=64, max_scored_tokens=8, reuse_prefixes=False)
    rig.submit("a", PROMPT, max_tokens=3, prompt_logprobs=2)
    rig.step()
    rig.step()
    rig.preempt()
    rig.step()
    assert (rig.steps[-1].num_tokens, rig.steps[-1].num_scored) == (24, 8)
    rig.run()
    assert rig.texts["a", 0].prompt_logprobs == wanted()


def test_choices_share_scores_and_survive_their_leader():
    rig = Rig(max_step_tokens=64, max_scored_tokens=8)
    rig.submit("a", PROMPT, n=3, max_tokens=2, prompt_logprobs=2)
    rig.step()
    rig.cancel("a", 0)
    rig.run()
    assert sum(step.num_scored for step in rig.steps) == len(PROMPT) - 1
    assert [rig.texts["a", choice].prompt_logprobs for choice in range(3)] == [None, wanted(), wanted()]


def test_a_prompt_of_one_token_has_no_scores():
    rig = Rig()
    rig.submit("a", [5], prompt_logprobs=3, max_tokens=1)
    rig.run()
    assert rig.texts["a", 0].prompt_logprobs == []


@pytest.mark.parametrize("prompt", [PROMPT, [5]])
@pytest.mark.parametrize("n", [1, 2])
def test_no_token_is_given_where_none_was_wanted(prompt: list[int], n: int):
    rig = Rig()
    rig.submit("a", prompt, n=n, max_tokens=0, prompt_logprobs=1, logprobs=1)
    rig.run()
    for choice in range(n):
        text = rig.texts["a", choice]
        assert (text.token_ids, text.finish, len(text.outputs)) == ([], "length", 1)
        assert text.prompt_logprobs == scores_alone(prompt, SamplingParams(prompt_logprobs=1))
    assert rig.engine.counts().output_tokens == 0


def test_who_wants_no_scores_gets_none():
    rig = Rig()
    rig.submit("a", PROMPT, max_tokens=2)
    rig.run()
    assert rig.texts["a", 0].prompt_logprobs is None
    assert rig.texts["a", 0].token_ids == alone(PROMPT, SamplingParams(max_tokens=2, temperature=0)).token_ids


def test_a_body_that_scores_too_few_tokens_fails_its_step():
    rig = Rig()
    rig.submit("a", PROMPT, max_tokens=2, prompt_logprobs=1)
    body = rig.engine._body

    def forgetful(step):
        sampled = body(step)
        del sampled.scores[-1]
        return sampled

    rig.engine._body = forgetful
    assert [output.piece.finish for output in rig.step()] == ["error"]


def test_more_scores_than_may_be_sent_are_refused():
    rig = Rig(num_blocks=9000, block_tokens=8, max_context=65000)
    with pytest.raises(RequestError, match="log-probabilities of prompts") as refusal:
        rig.engine.submit("a", GenerationRequest([[1] * 60000], SamplingParams(prompt_logprobs=20), n=4))
    assert MAX_SCORES < 60000 * 21 * 4
    assert refusal.value.field == "prompt_logprobs"
    assert not rig.engine.has_work
