"""GGUF files without graph.yaml, with chat templates of newer forms, as the openai client sees them."""

from __future__ import annotations

import json

import openai
import pytest
from breadth import after
from mixed_models import TEMPLATED

CITY = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": CITY}}]
ASKED = [{"role": "user", "content": "Is it warm?"}]
OSLO = [("weather", {"city": "Oslo"})]


@pytest.fixture(scope="module")
def client(mixed):
    with openai.OpenAI(base_url=f"{mixed.url}/v1", api_key="none") as made:
        yield made


def said(client, text, *, stream, model="lfm-2.5", **more):
    """(content, reasoning, calls, finish reason) of a reply in which the model writes this text, if one."""
    fields = {"model": model, "messages": ASKED, "max_tokens": 400, "temperature": 0, **more}
    if text is not None:
        fields["extra_body"] = {"structured_outputs": {"choice": [text]}}
    if not stream:
        choice = client.chat.completions.create(**fields).choices[0]
        tool_calls = choice.message.tool_calls or []
        calls = [
            (tool_call.function.name, json.loads(tool_call.function.arguments)) for tool_call in tool_calls
        ]
        return choice.message.content, getattr(choice.message, "reasoning", None), calls, choice.finish_reason
    content, reasoning, calls, finish = None, None, [], None
    for chunk in client.chat.completions.create(**fields, stream=True):
        delta, finish = chunk.choices[0].delta, chunk.choices[0].finish_reason or finish
        content = (content or "") + delta.content if delta.content else content
        thought = getattr(delta, "reasoning", None)
        reasoning = (reasoning or "") + thought if thought else reasoning
        for tool_call in delta.tool_calls or []:
            calls += [["", ""]] if tool_call.id else []
            calls[-1][0] += tool_call.function.name or ""
            calls[-1][1] += tool_call.function.arguments or ""
    return content, reasoning, [(name, json.loads(arguments)) for name, arguments in calls], finish


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_content(client, stream):
    content, reasoning, calls, _ = said(client, None, stream=stream, max_tokens=8)
    assert content
    assert (reasoning, calls) == (None, [])
    assert said(client, "It is.", stream=stream) == ("It is.", None, [], "stop")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("model", "text", "content", "calls"),
    [
        ("lfm-2.5", "<|tool_call_start|>[weather(city='Oslo')]<|tool_call_end|>", None, OSLO),
        ("json-in-qwens-tags", 'So.<function=weather>{"city": "Oslo"}</function>', "So.", OSLO),
        (
            "command-a-reasoning",
            '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "weather", "parameters": {"city": "Oslo"}}]'
            "<|END_ACTION|>",
            None,
            OSLO,
        ),
        ("command-a-reasoning", "<|START_RESPONSE|>It is.<|END_RESPONSE|>", "It is.", []),
    ],
)
def test_calls_and_answers_are_found(client, model, text, content, calls, stream):
    found = said(client, text, stream=stream, model=model, tools=TOOLS)
    assert found == (content, None, calls, "tool_calls" if calls else "stop")


@pytest.mark.parametrize("model", TEMPLATED)
@pytest.mark.parametrize("stream", after(1, [True, False]))
def test_a_call_that_must_be_made_is_made(client, model, stream):
    """After reasoning, which a model with random weights may begin and would not end."""
    more = {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
    if model != "json-in-qwens-tags":
        more["extra_body"] = {"thinking_token_budget": 5}
    content, _, ((name, arguments),), finish = said(client, None, stream=stream, model=model, **more)
    assert content in (None, "")
    assert (name, arguments["city"] in ("Oslo", "Rome"), finish) == ("weather", True, "tool_calls")


def test_a_conversation_goes_on_after_the_call(client):
    call = {
        "id": "call00001",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
    }
    history = [
        *ASKED,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call00001", "content": "3 degrees"},
    ]
    reply = client.chat.completions.create(model="lfm-2.5", messages=history, max_tokens=4)
    assert reply.choices[0].message.content is not None
