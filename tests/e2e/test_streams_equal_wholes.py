"""The joined pieces of a stream equal the whole reply, for every feature of every endpoint.

The demo model, greedy, so that a question has one answer.
"""

from __future__ import annotations

import json
from collections import defaultdict

import httpx
import pytest
from breadth import after
from patience import PATIENCE_S

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
FUNCTION = {"name": "get_weather", "description": "Current weather of a city", "parameters": WEATHER}
TOOL = {"type": "function", "function": FUNCTION}
FLAT_TOOL = {"type": "function", **FUNCTION}
ANTHROPIC_TOOL = {"name": "get_weather", "description": "Current weather of a city", "input_schema": WEATHER}
YES = {
    "type": "object",
    "properties": {"a": {"type": "boolean"}},
    "required": ["a"],
    "additionalProperties": False,
}
HELLO, OSLO = "Hello!", "What is the weather in Oslo?"
BOTH = "What is the weather in Oslo and in Rome?"
TOKENS = {"logprobs": True, "top_logprobs": 2, "return_token_ids": True}
THINK = {"reasoning_effort": "high"}
NAMED = {"type": "function", "function": {"name": "get_weather"}}


def messages_of(text, role="user", **more):
    return [{"role": role, "content": text, **more}]


CHATS = {
    "plain": {"messages": messages_of(HELLO)},
    "token by token": {"messages": messages_of(HELLO), **TOKENS},
    "tokens as ids": {"messages": messages_of(HELLO), "logprobs": True, "return_tokens_as_token_ids": True},
    "several": {"messages": messages_of(HELLO), "n": 3, "temperature": 1, "seed": 5},
    "packed": {"messages": messages_of(HELLO), "stream_interval": 3, **TOKENS},
    "the prompt": {"messages": messages_of(HELLO), "return_prompt_text": True, "return_token_ids": True},
    "thinking": {"messages": messages_of(HELLO), **THINK, **TOKENS},
    "hidden thinking": {"messages": messages_of(HELLO), **THINK, **TOKENS, "include_reasoning": False},
    "a budget": {"messages": messages_of(HELLO), **THINK, "thinking_token_budget": 2},
    "cut in thinking": {"messages": messages_of(HELLO), **THINK, "max_tokens": 3},
    "stop": {"messages": messages_of(HELLO), "stop": ["How"]},
    "stop that stays": {"messages": messages_of(HELLO), "stop": ["How"], "include_stop_str_in_output": True},
    "stop in thinking": {"messages": messages_of(HELLO), **THINK, "stop": ["user"]},
    "auto": {"messages": messages_of(OSLO), "tools": [TOOL], **TOKENS},
    "auto with thinking": {"messages": messages_of(OSLO), "tools": [TOOL], **THINK, **TOKENS},
    "auto, several": {"messages": messages_of(OSLO), "tools": [TOOL], "n": 2, "temperature": 0.7, "seed": 3},
    "auto with a schema": {
        "messages": messages_of(OSLO),
        "tools": [TOOL],
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": YES}},
    },
    "auto, cut": {"messages": messages_of(OSLO), "tools": [TOOL], "max_tokens": 14},
    "two calls": {"messages": messages_of(BOTH), "tools": [TOOL]},
    "one call of two": {"messages": messages_of(BOTH), "tools": [TOOL], "parallel_tool_calls": False},
    "required": {"messages": messages_of(HELLO), "tools": [TOOL], "tool_choice": "required"},
    "required with thinking": {
        "messages": messages_of(OSLO),
        "tools": [TOOL],
        "tool_choice": "required",
        **THINK,
    },
    "required, cut": {
        "messages": messages_of(OSLO),
        "tools": [TOOL],
        "tool_choice": "required",
        "max_tokens": 14,
    },
    "named": {"messages": messages_of(OSLO), "tools": [TOOL], "tool_choice": NAMED},
    "none": {"messages": messages_of(OSLO), "tools": [TOOL], "tool_choice": "none"},
    "schema": {
        "messages": messages_of(HELLO),
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": YES}},
    },
    "schema with thinking": {"messages": messages_of(HELLO), "structured_outputs": {"json": YES}, **THINK},
    "choice": {"messages": messages_of(HELLO), "structured_outputs": {"choice": ["yes", "no"]}},
    "echo": {
        "messages": messages_of(HELLO) + messages_of("Hello! How", "assistant"),
        "continue_final_message": True,
        "echo": True,
    },
    "going on after thinking": {
        "messages": messages_of(HELLO) + messages_of("Hello! How", "assistant", reasoning="A greeting."),
        "continue_final_message": True,
        **THINK,
    },
    "repetition": {
        "messages": messages_of(HELLO),
        "logit_bias": {"20": 100},
        "repetition_detection": {"max_pattern_size": 2, "min_pattern_size": 1, "min_count": 5},
    },
}
COMPLETIONS = {
    "plain": {"prompt": "Hello"},
    "several prompts": {"prompt": ["Hello", "One"], "n": 2, "temperature": 1, "seed": 4},
    "ids": {"prompt": [[5, 6], [7, 8, 9]], "return_token_ids": True, "logprobs": 1},
    "echo": {"prompt": "Hello there", "echo": True, "logprobs": 2, "return_token_ids": True},
    "only the prompt": {
        "prompt": ["Hello there", "a b"],
        "echo": True,
        "logprobs": 1,
        "max_tokens": 0,
        "return_token_ids": True,
    },
    "packed": {"prompt": "Hello", "stream_interval": 4, "logprobs": 1, "return_token_ids": True},
    "regex": {"prompt": "Hello", "structured_outputs": {"regex": "[a-c]{4}"}},
}
RESPONSES = {
    "plain": {"input": HELLO},
    "logprobs": {"input": HELLO, "top_logprobs": 2},
    "thinking": {"input": HELLO, "reasoning": {"effort": "high"}, "top_logprobs": 1},
    "hidden thinking": {
        "input": HELLO,
        "reasoning": {"effort": "high"},
        "include_reasoning": False,
        "top_logprobs": 1,
    },
    "a call": {"input": OSLO, "tools": [FLAT_TOOL]},
    "two calls": {"input": BOTH, "tools": [FLAT_TOOL]},
    "one call of two": {"input": BOTH, "tools": [FLAT_TOOL], "parallel_tool_calls": False},
    "thinking and a call": {"input": OSLO, "tools": [FLAT_TOOL], "reasoning": {"effort": "high"}},
    "schema": {"input": HELLO, "text": {"format": {"type": "json_schema", "name": "a", "schema": YES}}},
    "cut": {"input": HELLO, "max_output_tokens": 3},
    "a call, cut": {"input": OSLO, "tools": [FLAT_TOOL], "max_output_tokens": 14},
    "stop": {"input": HELLO, "stop": ["How"]},
}
MESSAGES = {
    "plain": {"messages": messages_of(HELLO)},
    "thinking": {"messages": messages_of(HELLO), "thinking": {"type": "enabled", "budget_tokens": 40}},
    "thinking not shown": {
        "messages": messages_of(HELLO),
        "thinking": {"type": "adaptive", "display": "omitted"},
    },
    "a call": {"messages": messages_of(OSLO), "tools": [ANTHROPIC_TOOL]},
    "two calls": {"messages": messages_of(BOTH), "tools": [ANTHROPIC_TOOL]},
    "thinking and a call": {
        "messages": messages_of(OSLO),
        "tools": [ANTHROPIC_TOOL],
        "thinking": {"type": "adaptive"},
    },
    "cut": {"messages": messages_of(HELLO), "max_tokens": 3},
    "stop": {"messages": messages_of(HELLO), "stop_sequences": ["can"]},
    "going on": {"messages": messages_of(HELLO) + messages_of("Hello! How", "assistant")},
}


FEW = (
    *("packed", "several", "auto with thinking", "two calls", "schema with thinking"),
    *("several prompts", "thinking and a call"),
)
"""Names of what `make test` asks; `make breadth` asks the rest."""


def few(cases):
    """The names of cases, of which those outside `FEW` run in `make breadth` only."""
    chosen = [name for name in cases if name in FEW]
    return after(len(chosen), chosen + [name for name in cases if name not in FEW])


@pytest.fixture(scope="module")
def both(demo):
    """(the whole reply, the events of its stream) of a body."""
    with httpx.Client(base_url=demo.url, timeout=PATIENCE_S) as client:

        def ask(path, fields, **streaming):
            body = {"model": "braid-demo", "temperature": 0, **fields}
            whole = client.post(path, json=body)
            stream = client.post(path, json={**body, "stream": True, **streaming})
            assert (whole.status_code, stream.status_code) == (200, 200), whole.text
            lines = [line.removeprefix("data: ") for line in stream.text.splitlines() if line[:6] == "data: "]
            return whole.json(), [json.loads(line) for line in lines if line != "[DONE]"]

        yield ask


def spent(usage):
    """Without what was found in the cache, and what a stream leaves out where nothing is known."""
    known = {name: value for name, value in usage.items() if value is not None}
    return {
        name: value for name, value in known.items() if "prompt_tokens_d" not in name and "cache" not in name
    }


def added(choices, text, gathered):
    """Choice → its pieces as one; `text` gives a piece's texts, `gathered` the names of its lists."""
    wholes = defaultdict(lambda: defaultdict(str))
    for choice in choices:
        joined = wholes[choice["index"]]
        for name, value in text(choice).items():
            joined[name] += value or ""
        for name in gathered:
            joined[name] = [*joined[name], *(choice.get(name) or [])]
        if choice["finish_reason"] is not None:
            joined["end"] = (choice["finish_reason"], choice["stop_reason"])
    return {index: dict(joined_choice) for index, joined_choice in wholes.items()}


def chat_texts(choice):
    part = choice.get("message") or choice["delta"]
    calls = {}
    for i, call in enumerate(part.get("tool_calls") or []):
        at = call.get("index", i)
        for name in ("name", "arguments"):
            calls[f"{name} {at}"] = call["function"].get(name) or ""
    scored = (choice.get("logprobs") or {}).get("content") or []
    tokens = "".join(json.dumps([entry["token"], len(entry["top_logprobs"])]) for entry in scored)
    names = ("role", "content", "reasoning")
    return {**{name: part.get(name) for name in names}, "tokens": tokens, **calls}


@pytest.mark.parametrize("name", few(CHATS))
def test_chat(both, name):
    options = {"stream_options": {"include_usage": True}}
    whole, events = both("/v1/chat/completions", {"max_tokens": 100, **CHATS[name]}, **options)
    pieces = [choice for event in events for choice in event["choices"]]
    expected = added(whole["choices"], chat_texts, ["token_ids"])
    streamed = added(pieces, chat_texts, ["token_ids"])
    assert {at: drop_empty(choice) for at, choice in streamed.items()} == {
        at: drop_empty(choice) for at, choice in expected.items()
    }
    assert spent(events[-1]["usage"]) == spent(whole["usage"])
    for field in ("prompt_token_ids", "prompt_text"):
        assert events[0].get(field) == whole[field]


def drop_empty(one):
    return {name: value for name, value in one.items() if value}


def completion_texts(choice):
    shown = choice["logprobs"] or {}
    lists = {name: json.dumps(shown.get(name, []))[1:-1] for name in ("tokens", "text_offset")}
    return {"text": choice["text"], **{name: text and text + ", " for name, text in lists.items()}}


@pytest.mark.parametrize("name", few(COMPLETIONS))
def test_completions(both, name):
    options = {"stream_options": {"include_usage": True}}
    whole, events = both("/v1/completions", {"max_tokens": 12, **COMPLETIONS[name]}, **options)
    lists = ["token_ids", "prompt_token_ids"]
    pieces = [choice for event in events for choice in event["choices"]]
    assert added(pieces, completion_texts, lists) == added(whole["choices"], completion_texts, lists)
    assert spent(events[-1]["usage"]) == spent(whole["usage"])


def lasting(response):
    """Without names, times, log-probabilities' digits and the cache."""
    found = {
        name: response[name] for name in ("status", "incomplete_details", "text", "tools", "tool_choice")
    }
    usage = {
        name: response["usage"][name] for name in ("input_tokens", "output_tokens", "output_tokens_details")
    }
    return {**found, **usage, "output": [item_said(item) for item in response["output"]]}


def item_said(item):
    parts = [
        (part["type"], part["text"], [entry["token"] for entry in part.get("logprobs", [])])
        for part in item.get("content") or []
    ]
    return item["type"], item["status"], item.get("name"), item.get("arguments"), parts


@pytest.mark.parametrize("name", few(RESPONSES))
def test_responses(both, name):
    whole, events = both("/v1/responses", RESPONSES[name])
    last = events[-1]["response"]
    assert lasting(last) == lasting(whole)
    deltas = defaultdict(str)
    for event in events:
        deltas[event.get("output_index")] += event["delta"] if event["type"].endswith(".delta") else ""
    for at, item in enumerate(last["output"]):
        assert deltas[at] == (item["arguments"] if "arguments" in item else item["content"][0]["text"])


TEXT_OF = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


def blocks_of(events):
    blocks, texts = {}, defaultdict(str)
    for event in events:
        if event["type"] == "content_block_start":
            blocks[event["index"]] = event["content_block"]
        elif event["type"] == "content_block_delta" and event["delta"]["type"] in TEXT_OF:
            texts[event["index"]] += event["delta"][TEXT_OF[event["delta"]["type"]]]
    return [(block["type"], block.get("name"), texts[at]) for at, block in blocks.items()]


def block_said(block):
    text = json.dumps(block["input"]) if block["type"] == "tool_use" else block[block["type"]]
    return block["type"], block.get("name"), text


@pytest.mark.parametrize("name", few(MESSAGES))
def test_messages(both, name):
    whole, events = both("/v1/messages", {"max_tokens": 100, **MESSAGES[name]})
    assert blocks_of(events) == [block_said(block) for block in whole["content"]]
    (ended,) = [event for event in events if event["type"] == "message_delta"]
    assert ended["delta"] == {
        name: whole[name] for name in ("stop_reason", "stop_sequence", "stop_details", "container")
    }
    counted = ("output_tokens", "output_tokens_details")
    assert {name: ended["usage"][name] for name in counted} == {
        name: whole["usage"][name] for name in counted
    }
