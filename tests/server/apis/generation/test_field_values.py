"""Values of request fields: where the good ones arrive, and what is said about the bad ones."""

from __future__ import annotations

import math

from one_test import in_one_test
from scripted import said

from pipelines.wire.sampling_params import Beams, RepetitionDetection

REACHES_SAMPLING = [
    ("temperature", 0.5, 0.5),
    ("temperature", 0, 0),
    ("temperature", 0.001, 0.01),
    ("top_p", 0.9, 0.9),
    ("top_k", 5, 5),
    ("top_k", 5.0, 5),
    ("top_k", -1, 0),
    ("min_p", 0.1, 0.1),
    ("repetition_penalty", 1.1, 1.1),
    ("presence_penalty", -2, -2),
    ("frequency_penalty", 2, 2),
    ("min_tokens", 3, 3),
    ("max_tokens", 7, 7),
    ("logit_bias", {"5": 1, "6": 500}, {5: 1, 6: 100}),
    ("allowed_token_ids", [1, 2], [1, 2]),
    ("stop_token_ids", [3], [3]),
    ("ignore_eos", True, True),
    ("seed", 42, 42),
    ("seed", -2, 2**64 - 2),
]


@in_one_test("name, value, expected", REACHES_SAMPLING)
def test_a_sampling_field_reaches_the_engine(rig, name, value, expected):
    assert rig.complete(**{name: value}).status == 200
    assert rig.pipeline.asked.sampling[name] == expected


def test_only_what_the_client_set_is_in_sampling(rig):
    rig.chat()
    assert rig.pipeline.asked.sampling.keys() == {"seed"}


def test_a_seed_is_drawn_when_none_is_given(rig):
    rig.chat()
    rig.chat(seed=-1)
    first, second = (call.generation.sampling["seed"] for call in rig.pipeline.calls)
    assert first != second
    assert min(first, second) >= 0


BIASES = dict.fromkeys(map(str, range(16_385)), 1)
DETECTION = {"max_pattern_size": 3, "min_count": 2}
REACHES_SAMPLING += [
    ("repetition_detection", DETECTION, RepetitionDetection(3, 2, 1)),
    ("repetition_detection", {**DETECTION, "min_pattern_size": 2}, RepetitionDetection(3, 2, 2)),
    ("temp_scaled_logprobs", True, True),
    ("top_p_normalized_logprobs", True, True),
    ("priority", -5, -5),
    ("prompt_logprobs", 3, 3),
]


def test_beams_reach_the_engine(rig):
    rig.pipeline.batches = [[(i, said_stop()) for i in range(2)]]
    fields = {"n": 2, "temperature": 0, "length_penalty": 2, "early_stopping": True}
    assert len(rig.complete(use_beam_search=True, **fields).json["choices"]) == 2
    assert rig.pipeline.asked.sampling["beams"] == Beams(2, 2.0, True)
    assert len(rig.complete(use_beam_search=True, best_of=4, **fields).json["choices"]) == 2
    assert rig.pipeline.asked.sampling["beams"] == Beams(4, 2.0, True)
    assert rig.pipeline.asked.n == 2


def test_processors_of_fast_deploy_are_honoured(rig):
    rig.chat(logit_bias={"5": 1}, logits_processors_args={"logit_bias": {"6": 500}, "thinking_budget": 7})
    assert rig.pipeline.asked.sampling["logit_bias"] == {5: 1, 6: 100}
    assert rig.pipeline.asked.thinking_budget == 7


def test_banned_ids_reach_the_engine(rig):
    rig.chat(bad_words_token_ids=[3, 4])
    assert rig.pipeline.asked.sampling["bad_words_ids"] == [[3], [4]]


REACHES_GENERATION = [
    ("n", 3, "n", 3),
    ("stop", "a", "stop", ["a"]),
    ("stop", ["a", "b"], "stop", ["a", "b"]),
    ("include_stop_str_in_output", True, "include_stop_str_in_output", True),
    ("bad_words", ["x"], "bad_words", ["x"]),
    ("skip_special_tokens", False, "skip_special_tokens", False),
    ("cache_salt", "s", "cache_salt", "s"),
    ("truncate_prompt_tokens", 5, "truncate_prompt_tokens", 5),
    ("truncate_prompt_tokens", -1, "truncate_prompt_tokens", -1),
]


@in_one_test("name, value, attribute, expected", REACHES_GENERATION)
def test_a_field_reaches_the_pipeline(rig, name, value, attribute, expected):
    rig.pipeline.batches = [[(i, said_stop()) for i in range(3 if name == "n" else 1)]]
    assert rig.chat(**{name: value}).status == 200
    assert getattr(rig.pipeline.asked, attribute) == expected


def said_stop():
    return said("a", "stop")


def test_max_completion_tokens_wins(rig):
    rig.chat(max_tokens=5, max_completion_tokens=9)
    assert rig.pipeline.asked.sampling["max_tokens"] == 9


def test_chat_may_fill_the_context_and_completions_16_tokens(rig):
    rig.chat()
    assert rig.pipeline.asked.default_max_tokens is None
    rig.complete()
    assert rig.pipeline.asked.default_max_tokens == 16


@in_one_test("given, limit", [(7, 7), (-1, None), (-2, None), (100_000, 100_000)])
@in_one_test("ask", ["chat", "complete"])
def test_llama_cpps_limit_ends_at_the_context(rig, ask, given, limit):
    assert getattr(rig, ask)(n_predict=given).status == 200
    assert rig.pipeline.asked.default_max_tokens == limit
    assert "max_tokens" not in rig.pipeline.asked.sampling


def test_own_names_win_over_those_of_llama_cpp(rig):
    rig.chat(n_predict=7, max_tokens=5, repeat_penalty=1.5)
    assert rig.pipeline.asked.sampling["max_tokens"] == 5
    assert rig.pipeline.asked.sampling["repetition_penalty"] == 1.5
    rig.chat(repeat_penalty=1.5, repetition_penalty=1.25)
    assert rig.pipeline.asked.sampling["repetition_penalty"] == 1.25


BAD = [
    ({"temperature": -1}, "temperature", "temperature must be non-negative, got -1.0."),
    ({"temperature": 3}, "temperature", "temperature must be in [0, 2], got 3.0."),
    ({"temperature": "hot"}, "temperature", '`temperature` must be a number, got "hot"'),
    ({"temperature": True}, "temperature", "`temperature` must be a number, got true"),
    ({"temperature": math.nan}, "temperature", "`temperature` must be a number, got NaN"),
    ({"temperature": math.inf}, "temperature", "`temperature` must be a number, got Infinity"),
    (
        {"n_predict": 0},
        "n_predict",
        "must be -1 or -2 (what the context has room for), or at least 1, got 0.",
    ),
    ({"repeat_penalty": 0}, "repeat_penalty", "repeat_penalty must be greater than zero, got 0.0."),
    ({"top_p": 0}, "top_p", "top_p must be in (0, 1], got 0.0."),
    ({"top_p": 1.1}, "top_p", "top_p must be in (0, 1], got 1.1."),
    ({"top_k": -2}, "top_k", "top_k must be 0 (disable), or at least 1, got -2."),
    ({"top_k": 1.5}, "top_k", "`top_k` must be an integer, got 1.5"),
    ({"min_p": 2}, "min_p", "min_p must be in [0, 1], got 2.0."),
    ({"presence_penalty": 3}, "presence_penalty", "presence_penalty must be in [-2, 2], got 3.0."),
    ({"frequency_penalty": -3}, "frequency_penalty", "frequency_penalty must be in [-2, 2], got -3.0."),
    (
        {"repetition_penalty": 0},
        "repetition_penalty",
        "repetition_penalty must be greater than zero, got 0.0.",
    ),
    ({"n": 0}, "n", "n must be at least 1, got 0."),
    ({"n": 129}, "n", "n must be at most 128, got 129."),
    ({"n": 2, "temperature": 0}, "n", "n must be 1 when using greedy sampling, got 2."),
    ({"max_tokens": 0}, "max_tokens", "max_tokens must be at least 1, got 0."),
    ({"max_tokens": "abc"}, "max_tokens", '`max_tokens` must be an integer, got "abc"'),
    (
        {"max_tokens": 600},
        "max_tokens",
        "max_tokens=600 cannot be greater than max_model_len=512. Please request fewer output tokens.",
    ),
    (
        {"min_tokens": 9, "max_tokens": 8},
        "min_tokens",
        "min_tokens must be less than or equal to max_tokens=8, got 9.",
    ),
    ({"min_tokens": -1}, "min_tokens", "min_tokens must be greater than or equal to 0, got -1."),
    ({"seed": 2**63}, "seed", f"seed must fit a signed 64-bit integer, got {2**63}."),
    ({"stop": [""]}, "stop", "stop cannot contain an empty string."),
    ({"stop": ""}, "stop", "stop cannot contain an empty string."),
    ({"stop": ["a"] * 17}, "stop", "stop may hold 16 strings at most."),
    ({"stop": ["a" * 1025]}, "stop", "stop strings may have 1024 characters at most."),
    ({"stop": 5}, "stop", "`stop` must be a list, got 5"),
    ({"stop": [5]}, "stop.0", "`stop.0` must be a string, got 5"),
    ({"stop_token_ids": [-1]}, "stop_token_ids", "token ids"),
    ({"stop_token_ids": ["a"]}, "stop_token_ids.0", "must be an integer"),
    ({"allowed_token_ids": []}, "allowed_token_ids", "allowed_token_ids is not None and empty!"),
    ({"bad_words": [""]}, "bad_words", "bad_words cannot contain an empty string."),
    ({"logit_bias": {"abc": 1}}, "logit_bias", "cannot be converted to integer token IDs"),
    ({"logit_bias": {"9999999999": 1}}, "logit_bias", "out-of-vocab"),
    ({"logit_bias": {"5": "x"}}, "logit_bias.5", "must be a number"),
    ({"logit_bias": [1]}, "logit_bias", "must be an object"),
    ({"cache_salt": "a/b"}, "cache_salt", "must not contain '@', '/', '\\', or NUL."),
    ({"cache_salt": ""}, "cache_salt", "1 to 128 characters"),
    ({"cache_salt": "x" * 129}, "cache_salt", "1 to 128 characters"),
    ({"ignore_eos": 2}, "ignore_eos", "`ignore_eos` must be true or false, got 2"),
    ({"stream": "maybe"}, "stream", "`stream` must be true or false"),
    (
        {"stream_options": {"include_usage": True}},
        "stream_options",
        "Stream options can only be defined when `stream=True`.",
    ),
    ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens", "must be -1"),
    ({"truncate_prompt_tokens": 513}, "truncate_prompt_tokens", "is greater than max_model_len"),
    ({"truncation_side": "middle"}, "truncation_side", "'left' or 'right'"),
    ({"repetition_detection": {"max_pattern_size": 3}}, "repetition_detection", "min_count"),
    (
        {"repetition_detection": {"max_pattern_size": 3, "min_count": 2, "min_pattern_size": 4}},
        "repetition_detection",
        "min_pattern_size",
    ),
    ({"prompt_logprobs": 21}, "prompt_logprobs", "greater than max allowed: 20"),
    ({"logprob_token_ids": [1]}, "logprob_token_ids", "`logprobs` must be set."),
    ({"logprob_token_ids": [1] * 129}, "logprob_token_ids", "128 token ids at most"),
    *(
        ({name: [1] * 16_385}, name, f"{name} may hold 16384 token ids at most.")
        for name in ("allowed_token_ids", "stop_token_ids", "bad_words_token_ids")
    ),
    ({"logit_bias": BIASES}, "logit_bias", "logit_bias may hold 16384 token ids at most."),
    (
        {"logits_processors_args": {"logit_bias": BIASES}},
        "logits_processors_args.logit_bias",
        "logits_processors_args.logit_bias may hold 16384 token ids at most.",
    ),
    ({"bad_words": ["a"] * 129}, "bad_words", "bad_words may hold 128 words at most."),
    ({"stream_interval": 0}, "stream_interval", "stream_interval must be in [1, 1024], got 0."),
    ({"priority": 2**63}, "priority", "64-bit"),
    (
        {"use_beam_search": True, "stream": True},
        "stream",
        "Streaming is not currently supported with beam search",
    ),
    ({"length_penalty": 2}, "length_penalty", "set `use_beam_search` too"),
    ({"early_stopping": True}, "early_stopping", "set `use_beam_search` too"),
    (
        {"logits_processors_args": {"thinking_budget": -1}},
        "logits_processors_args.thinking_budget",
        "non-negative",
    ),
    (
        {"logits_processors_args": {"logit_bias": {"a": 1}}},
        "logits_processors_args.logit_bias",
        "no token id",
    ),
    (
        {"logits_processors_args": {"think_stop_sentence": "x"}},
        "logits_processors_args.think_stop_sentence",
        "the model's own mark",
    ),
    ({"prompt_token_ids": []}, "prompt_token_ids", "must be a list of token ids"),
    ({"prompt_token_ids": [1, "a"]}, "prompt_token_ids.1", "must be a token id"),
    ({"request_id": "a b"}, "request_id", "printable ASCII"),
    ({"request_id": ""}, "request_id", "1 to 128"),
    ({"model": 5}, "model", "`model` must be a string, got 5"),
]


@in_one_test("fields, param, message", BAD)
def test_a_bad_value_is_named_on_completions(rig, fields, param, message):
    answer = rig.complete(**fields)
    assert answer.status == 400
    assert answer.error["param"] == param
    assert message in answer.error["message"]
    assert answer.error["type"] == "BadRequestError"


@in_one_test("fields, param, message", BAD)
def test_a_bad_value_is_named_on_chat(rig, fields, param, message):
    answer = rig.chat(**fields)
    assert answer.status == 400
    assert (answer.error["param"], message in answer.error["message"]) == (param, True)


SAID = {"role": "assistant", "content": "a"}
BAD_CHAT = [
    (
        {"thinking_token_budget": -5},
        "thinking_token_budget",
        "`thinking_token_budget` must be a non-negative integer or -1 for unlimited.",
    ),
    ({"prompt_token_ids": [[1], [2]]}, "prompt_token_ids", "must be one list of token ids"),
    ({"messages": [1, 2], "prompt_token_ids": [1]}, "prompt_token_ids", "are token ids already"),
    ({"messages": [1, -2]}, "messages.1", "Token id -2 is out of vocabulary"),
    (
        {"chat_template": "{{ messages[0].content }}"},
        "chat_template",
        "Chat template is passed with request, but BRAID_TRUST_REQUEST_CHAT_TEMPLATE is not set.",
    ),
    ({"messages": []}, "messages", "Cannot apply chat template to an empty conversation."),
    ({"messages": "hi"}, "messages", '`messages` must be a list, got "hi"'),
    ({"messages": None}, "messages", "`messages` is required"),
    ({"top_logprobs": 21, "logprobs": True}, "top_logprobs", "greater than max allowed: 20"),
    ({"top_logprobs": -1, "logprobs": True}, "top_logprobs", "`top_logprobs` must be in [0, 20], got -1."),
    ({"top_logprobs": 2}, "top_logprobs", "`logprobs` must be set to true."),
    ({"logprobs": 2}, "logprobs", "`logprobs` must be true or false"),
    ({"max_completion_tokens": 0}, "max_completion_tokens", "max_completion_tokens must be at least 1"),
    ({"max_completion_tokens": 513}, "max_completion_tokens", "max_model_len=512"),
    ({"reasoning_effort": "huge"}, "reasoning_effort", "'none', 'minimal', 'low', 'medium', 'high'"),
    (
        {"add_generation_prompt": True, "continue_final_message": True},
        "continue_final_message",
        "Cannot set both `continue_final_message` and `add_generation_prompt` to True.",
    ),
    (
        {"messages": [{"role": "user", "content": "a", "prefix": True}]},
        "messages.0.prefix",
        "only the last message, and only if that is the assistant's",
    ),
    (
        {"messages": [{**SAID, "prefix": True}, {"role": "user", "content": "b"}]},
        "messages.0.prefix",
        "only the last message, and only if that is the assistant's",
    ),
    (
        {"messages": [{**SAID, "prefix": True}], "add_generation_prompt": True},
        "continue_final_message",
        "Cannot set both",
    ),
    (
        {"chat_template_kwargs": {"messages": []}},
        "chat_template_kwargs.messages",
        "`messages` is a field of the request",
    ),
    ({"chat_template_kwargs": []}, "chat_template_kwargs", "must be an object"),
]


@in_one_test("fields, param, message", BAD_CHAT)
def test_a_bad_chat_field_is_named(rig, fields, param, message):
    answer = rig.chat(**fields)
    assert answer.status == 400
    assert (answer.error["param"], message in answer.error["message"]) == (param, True)


def test_missing_messages_are_named(rig):
    answer = rig.post("/v1/chat/completions", {"model": "tiny"})
    assert answer.error["message"] == "`messages` is required"


def test_several_faults_are_told_together(rig):
    answer = rig.chat(temperature="a", top_p="b", top_k="c", min_p="d")
    assert "`temperature`" in answer.error["message"]
    assert "and 1 more" in answer.error["message"]


BAD_COMPLETION = [
    ({"best_of": 1, "n": 2}, "best_of", "best_of must be greater than or equal to n=2, got 1."),
    ({"best_of": 2, "stream": True}, "best_of", "best_of cannot be used when `stream=True`."),
    (
        {"max_tokens": 0, "echo": True, "logprobs": 1, "logprob_token_ids": [1]},
        "logprob_token_ids",
        "max_tokens is 0",
    ),
    ({"logprobs": 21}, "logprobs", "greater than max allowed: 20"),
    ({"logprobs": True}, "logprobs", "must be an integer"),
    ({"prompt": None}, "prompt", "Either prompt or prompt_embeds must be provided and non-empty."),
    ({"prompt": ""}, "prompt", "Either prompt or prompt_embeds must be provided and non-empty."),
    ({"prompt": []}, "prompt", "You must pass at least one prompt"),
    ({"prompt": ["a", ""]}, "prompt.1", "The decoder prompt cannot be empty"),
    ({"prompt": [[1], []]}, "prompt.1", "The decoder prompt cannot be empty"),
    ({"prompt": {"a": 1}}, "prompt", "a list of token ids"),
    ({"prompt": 5}, "prompt", "`prompt` must be a string"),
    ({"prompt": [1, "a"]}, "prompt.1", "must be a token id"),
    ({"prompt": [1, True]}, "prompt.1", "must be a token id"),
    ({"prompt": [[1, -1]]}, "prompt.0.1", "Token id -1 is out of vocabulary"),
    ({"prompt": [[1, 1.5]]}, "prompt.0.1", "must be a token id"),
    ({"prompt": ["a", None]}, "prompt.1", "`prompt` must be a string"),
    ({"prompt": ["a"] * 1025}, "prompt", "more than 1024 choices"),
    ({"prompt": ["a"] * 100, "n": 128}, "n", "more than 1024 choices"),
]


@in_one_test("fields, param, message", BAD_COMPLETION)
def test_a_bad_completion_field_is_named(rig, fields, param, message):
    answer = rig.complete(**fields)
    assert answer.status == 400
    assert (answer.error["param"], message in answer.error["message"]) == (param, True)


PROMPTS = [
    ("hi", [("hi", None)]),
    (["a", "b"], [("a", None), ("b", None)]),
    ([1, 2], [(None, [1, 2])]),
    ([1, 2.0], [(None, [1, 2])]),
    ([[1], [2, 3]], [(None, [1]), (None, [2, 3])]),
    (["a", [2]], [("a", None), (None, [2])]),
]


@in_one_test("prompt, expected", PROMPTS)
def test_the_shapes_of_a_prompt(rig, prompt, expected):
    rig.pipeline.batches = [[(i, said_stop()) for i in range(len(expected))]]
    assert rig.complete(prompt=prompt).status == 200
    assert [(one.text, one.ids) for one in rig.pipeline.asked.prompts] == expected


@in_one_test("value, expected", [(None, True), (True, True), (False, False)])
def test_special_tokens_are_added_to_text_unless_told_not_to(rig, value, expected):
    rig.complete(add_special_tokens=value)
    assert rig.pipeline.asked.prompts[0].add_special_tokens is expected


def test_the_header_s_priority_counts_more_than_the_body_s(rig):
    body = {"model": "tiny", "prompt": "hi", "priority": 5}
    assert rig.post("/v1/completions", body, x_vllm_priority="-3").status == 200
    assert rig.pipeline.asked.sampling["priority"] == -3


@in_one_test("value", ["soon", "1e3", str(2**63)])
def test_a_header_that_is_no_priority_is_refused(rig, value):
    answer = rig.post("/v1/completions", {"model": "tiny", "prompt": "hi"}, x_vllm_priority=value)
    assert answer.status == 400
    assert "riority" in answer.error["message"]
