"""Fields of other clients that mean the same as one of ours, and values that pydantic reads from text."""

from __future__ import annotations

import pytest
from scripted import said

from pipelines.values.reply_values import ToolCallPiece

USER = {"role": "user", "content": "hi"}
FUNCTION = {"name": "f", "description": "d", "parameters": {"type": "object"}}


def test_mistrals_seed_is_the_seed(rig):
    rig.chat(random_seed=7)
    assert rig.pipeline.asked.sampling["seed"] == 7
    rig.chat(random_seed=7, seed=8)
    assert rig.pipeline.asked.sampling["seed"] == 8


KWARGS = [
    ({"enable_thinking": False}, {"enable_thinking": False}),
    ({"enable_thinking": "false"}, {"enable_thinking": False}),
    ({"thinking": {"type": "disabled"}}, {"enable_thinking": False}),
    ({"thinking": {"type": "enabled", "budget_tokens": 5}}, {"enable_thinking": True}),
    ({"enable_thinking": True, "chat_template_kwargs": {"thinking": False}}, {"thinking": False}),
    ({"thinking": {"type": "auto"}}, {}),
    (
        {"enable_thinking": False, "reasoning_effort": "low"},
        {"enable_thinking": False, "reasoning_effort": "low"},
    ),
    (
        {"enable_thinking": True, "chat_template_kwargs": {"enable_thinking": False}},
        {"enable_thinking": False},
    ),
]


@pytest.mark.parametrize(("fields", "kwargs"), KWARGS)
def test_thinking_is_a_variable_of_the_template(rig, fields, kwargs):
    assert rig.chat(**fields).status == 200
    assert rig.pipeline.asked.template_kwargs == kwargs


@pytest.mark.parametrize(
    ("choice", "forced", "parses"),
    [(None, None, True), ("auto", None, True), ("none", None, False), ({"name": "f"}, "f", True)],
)
def test_deprecated_functions_are_tools(rig, choice, forced, parses):
    assert rig.chat(functions=[FUNCTION], function_call=choice).status == 200
    asked = rig.pipeline.asked
    assert asked.tools == [{"type": "function", "function": FUNCTION}]
    assert (asked.tool_choice, asked.parse_tools) == (forced, parses)


def test_a_function_that_is_not_declared_is_refused(rig):
    answer = rig.chat(functions=[FUNCTION], function_call={"name": "g"})
    assert (answer.status, answer.error["param"]) == (400, "tool_choice")


def test_earlier_function_calls_are_tool_calls(rig):
    called = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"x": 1}'}}
    rig.chat(messages=[USER, called, {"role": "function", "name": "f", "content": "5"}])
    _, call, result = rig.pipeline.asked.messages
    assert call["tool_calls"] == [
        {"id": "call_f", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
    ]
    assert result == {"role": "tool", "content": "5", "name": "f", "tool_call_id": "call_f"}


CALLS = [
    [(0, said(tool_calls=[ToolCallPiece(0, "", "call_1", "f")]))],
    [(0, said(tool_calls=[ToolCallPiece(0, "{}")]))],
    [(0, said(tool_calls=[ToolCallPiece(1, "{}", "call_2", "f")]))],
    [(0, said("", "tool_calls"))],
]


def test_a_client_of_functions_reads_one_function_call(rig):
    rig.pipeline.batches = CALLS
    choice = rig.chat(functions=[FUNCTION]).json["choices"][0]
    assert choice["finish_reason"] == "function_call"
    assert choice["message"]["function_call"] == {"name": "f", "arguments": "{}"}
    assert "tool_calls" not in choice["message"]


def test_so_it_does_in_a_stream(rig):
    rig.pipeline.batches = CALLS
    *events, done = rig.chat(functions=[FUNCTION], stream=True).events
    deltas = [event["choices"][0]["delta"] for event in events]
    assert [delta["function_call"] for delta in deltas if "function_call" in delta] == [
        {"name": "f"},
        {"arguments": "{}"},
    ]
    assert not any("tool_calls" in delta for delta in deltas)
    assert events[-1]["choices"][0]["finish_reason"] == "function_call"
    assert done == "[DONE]"


NUMBERS = [
    ({"max_tokens": "5"}, "max_tokens", 5),
    ({"max_tokens": " 5 "}, "max_tokens", 5),
    ({"max_tokens": "5.0"}, "max_tokens", 5),
    ({"temperature": "0.5"}, "temperature", 0.5),
    ({"seed": "7"}, "seed", 7),
    ({"stop_token_ids": ["7", 8]}, "stop_token_ids", [7, 8]),
    ({"logit_bias": {"7": "1.5"}}, "logit_bias", {7: 1.5}),
    ({"ignore_eos": "true"}, "ignore_eos", True),
    ({"ignore_eos": 1}, "ignore_eos", True),
]


@pytest.mark.parametrize(("fields", "name", "value"), NUMBERS)
def test_numbers_and_flags_may_be_text(rig, fields, name, value):
    assert rig.chat(**fields).status == 200
    assert rig.pipeline.asked.sampling[name] == value


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"max_tokens": "five"}, "`max_tokens` must be an integer"),
        ({"max_tokens": "5.5"}, "`max_tokens` must be an integer"),
        ({"max_tokens": "9" * 5000}, "`max_tokens` must be an integer"),
        ({"max_tokens": True}, "`max_tokens` must be an integer"),
        ({"max_tokens": "-1"}, "max_tokens must be at least 1, got -1."),
        ({"temperature": "nan"}, "`temperature` must be a number"),
        ({"temperature": "inf"}, "`temperature` must be a number"),
        ({"temperature": "hot"}, "`temperature` must be a number"),
        ({"stream": "maybe"}, "`stream` must be true or false"),
        ({"stream": 2}, "`stream` must be true or false"),
    ],
)
def test_other_text_is_refused(rig, fields, text):
    answer = rig.chat(**fields)
    assert (answer.status, text in answer.error["message"]) == (400, True), answer.error


IGNORED = [
    {"safe_prompt": True},
    {"verbosity": "low"},
    {"web_search_options": {}},
    {"mm_processor_kwargs": {"fps": 2}},
    {"stream": True, "stream_options": {"include_obfuscation": True}},
    {"messages": [{**USER, "provider_specific_fields": {"refusal": None}, "thinking_blocks": []}]},
]


@pytest.mark.parametrize("fields", IGNORED)
def test_fields_without_a_meaning_here_are_ignored(make_rig, fields):
    assert make_rig(strict_fields=True).chat(**fields).status == 200  # they are known


def test_echo_returns_the_log_probabilities_of_the_prompt_where_they_are_wanted(rig):
    rig.chat(echo=True)
    assert rig.pipeline.asked.sampling["prompt_logprobs"] == 0
    answer = rig.chat(echo=True, logprobs=True, top_logprobs=2)
    assert rig.pipeline.asked.sampling["prompt_logprobs"] == 2
    assert answer.json["prompt_logprobs"] is not None
    rig.chat(echo=True, logprobs=True, stream=True)
    assert "prompt_logprobs" not in rig.pipeline.asked.sampling
