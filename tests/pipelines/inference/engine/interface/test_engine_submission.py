"""What an engine refuses at once, with a 400 that names the field, and queues nothing."""

from __future__ import annotations

import pytest
from engine_rig import VOCAB_SIZE, Rig, alone

from pipelines.base.errors import RequestError
from pipelines.wire.sampling_params import SamplingParams


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        ([], {}, "at least one prompt"),
        ([[1], []], {}, "cannot be empty"),
        ([[VOCAB_SIZE]], {}, "Token id 97 is out of vocabulary"),
        ([[1, -1]], {}, "Token id -1 is out of vocabulary"),
        ([[1] * 50], {}, "maximum context length is 50 tokens"),
        ([[1]], {"n": 0}, "n must be at least 1"),
        ([[1]], {"stop_token_ids": [97]}, "in stop_token_ids contain out-of-vocab"),
        ([[1]], {"logit_bias": {500: 1.0}}, "in logit_bias contain out-of-vocab"),
    ],
)
def test_refused(prompts, options, message):
    rig = Rig(max_context=50)
    with pytest.raises(RequestError, match=message) as caught:
        rig.submit("a", *prompts, **options)
    assert caught.value.status == 400
    assert not rig.engine.has_work
    assert rig.engine.step() == []


def test_a_prompt_beyond_the_whole_cache_is_refused():
    rig = Rig(num_blocks=4, block_tokens=4)
    with pytest.raises(RequestError, match="cache holds 16 tokens"):
        rig.submit("a", [1] * 17)


def test_a_prompt_as_large_as_the_whole_cache_runs():
    rig = Rig(num_blocks=4, block_tokens=4)
    rig.submit("a", [1] * 16, max_tokens=5)
    rig.run()
    assert len(rig.texts["a", 0].token_ids) == 1


def test_more_prompts_than_rows_wait_their_turn():
    rig = Rig(max_sequences=2)
    rig.submit("a", *[[token] for token in range(9)], max_tokens=2)
    rig.run()
    assert {text.finish for text in rig.texts.values()} == {"length"}


def test_a_key_names_one_request_at_a_time():
    rig = Rig()
    rig.submit("a", [1], max_tokens=1)
    with pytest.raises(ValueError, match="'a' is already running"):
        rig.submit("a", [1])
    rig.run()
    rig.submit("a", [1], max_tokens=1)
    rig.run()


def test_more_choices_than_the_engine_runs_at_a_time_wait_their_turn():
    rig = Rig(max_sequences=4)
    prompts = [[5, 6, 7, 8, 9], [11]]
    rig.submit("a", *prompts, n=7, temperature=1.0, seed=3, max_tokens=6, prompt_logprobs=1)
    rig.run()
    params = SamplingParams(temperature=1.0, seed=3, max_tokens=6, prompt_logprobs=1)
    for choice in range(14):
        wanted, text = alone(prompts[choice // 7], params, choice), rig.texts["a", choice]
        assert (text.token_ids, text.prompt_logprobs) == (wanted.token_ids, wanted.prompt_logprobs)


def test_the_choices_that_wait_find_the_prompt_in_the_cache():
    rig = Rig(max_sequences=2, block_tokens=4)
    rig.submit("a", list(range(12)), n=4, max_tokens=3)
    rig.run()
    assert [rig.texts["a", choice].num_cached for choice in (2, 3)] == [8, 8]
