"""Tools for models whose templates have no form of them: schemas as text, replies that a grammar holds."""

from __future__ import annotations

import asyncio
import json

import pytest
from scripted_model import GRAPH, serving, write_scripted_model

from pipelines.nodes.text.parsers.tools.generic import GenericReply
from pipelines.nodes.text.templates.tools_as_text import with_tools_as_text
from pipelines.values.tasks import PromptInput

CHAT = "/v1/chat/completions"
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ = {"type": "function", "function": {"name": "read_file", "description": "Reads.", "parameters": PATH}}
CALLED = '{"tool_calls": [{"name": "read_file", "arguments": {"path": "é.txt"}}]}'
PLAIN = """\
{%- for message in messages -%}
{%- if message.role == 'tool' or message.tool_calls %}{{ raise_exception('no tools here') }}{% endif -%}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}"""
REPLIES = [
    ("Be short", "Plain text."),
    ("forty-two", '{"response": "It says \\"42\\".\\n"}'),
    ("Read it", CALLED),
    ("Break it", '{"tool_calls": [{"name": "other", "arguments": {}}]}'),
]
USER = {"role": "user", "content": "Read it"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, tools in (("generic", "generic"), ("none", "hermes")):
        graph = GRAPH.replace("tools: hermes", f"tools: {tools}")
        write_scripted_model(folder / name, REPLIES, graph=graph)
        (folder / name / "chat_template.jinja").write_text(PLAIN)
    return folder


def test_a_model_without_a_form_calls_tools(folder):
    async def scene():
        async with serving(folder) as client:
            body = {"model": "generic", "messages": [USER], "tools": [READ], "max_tokens": 200}
            first = (await client.post(CHAT, body)).json
            tool_calls = first["choices"][0]["message"]
            result = {
                "role": "tool",
                "tool_call_id": tool_calls["tool_calls"][0]["id"],
                "content": "forty-two",
            }
            messages = [USER, tool_calls, result]
            second = await client.post(CHAT, {**body, "messages": messages, "stream": True})
            third = await client.post(
                CHAT, {**body, "messages": [*messages, {**USER, "content": "Be short"}]}
            )
            plain = {**body, "messages": [*messages, {**USER, "content": "Be short"}], "tool_choice": "none"}
            broken = await client.post(CHAT, {**body, "messages": [{**USER, "content": "Break it"}]})
            forced = await client.post(CHAT, {**body, "messages": [USER], "tool_choice": "required"})
            return first, second, third.json, (await client.post(CHAT, plain)).json, broken.json, forced.json

    first, second, third, plain, broken, forced = asyncio.run(scene())
    for reply in (first, forced):
        (tool_calls,) = reply["choices"][0]["message"]["tool_calls"]
        assert tool_calls["function"] == {"name": "read_file", "arguments": '{"path": "é.txt"}'}
        assert reply["choices"][0]["finish_reason"] == "tool_calls"
    deltas = [event["choices"][0]["delta"].get("content") for event in second.events[:-1] if event["choices"]]
    assert "".join(filter(None, deltas)) == 'It says "42".\n'
    assert len(deltas) > 4
    assert third["choices"][0]["message"]["content"] != "Plain text.", "a grammar wants an object"
    assert plain["choices"][0]["message"]["content"] == "Plain text."
    calls = broken["choices"][0]["message"].get("tool_calls") or []
    assert {call["function"]["name"] for call in calls} <= {"read_file"}
    assert third["usage"]["prompt_tokens_details"]["cached_tokens"] > first["usage"]["prompt_tokens"]


def test_it_is_off_by_default(folder):
    async def scene():
        async with serving(folder) as client:
            body = {"model": "none", "messages": [USER], "tools": [READ], "max_tokens": 200}
            return (await client.post(CHAT, body)).json

    assert asyncio.run(scene())["choices"][0]["message"]["content"] == CALLED, (
        "no schema is shown, none is held"
    )


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("reply", "content", "calls"),
    [
        ('{"response": "a \\"b\\"\\n\\ud83d\\ude00"}', 'a "b"\n😀', []),
        (
            ' {"tool_calls": [{"name": "f", "arguments": {"a": "}]"}}, {"name": "g", "arguments": {}}]}',
            "",
            "fg",
        ),
        ('{"response": "cut', "cut", []),
        ('{"answer": 1}', '{"answer": 1}', []),
        ("Hello {", "Hello {", []),
        ("{", "{", []),
        ("", "", []),
    ],
)
def test_a_reply_in_pieces(reply, content, calls, size):
    parser, said, names, arguments = GenericReply(), "", [], {}
    pieces = [reply[at : at + size] for at in range(0, len(reply), size)]
    for text, final in [*((piece, False) for piece in pieces), ("", True)]:
        shown, new_calls = parser.push(text, final=final)
        said += shown
        for piece in new_calls:
            names += [piece.name] if piece.name else []
            arguments[piece.index] = arguments.get(piece.index, "") + piece.arguments
    assert (said, names) == (content, [*calls])
    assert all(isinstance(json.loads(text), dict) for text in arguments.values())


def test_a_history_becomes_text():
    call = {"id": "c1", "function": {"name": "f", "arguments": '{"a": 1}'}}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "go"},
        {"role": "assistant", "tool_calls": [call, {**call, "id": "c2"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "two"}]},
    ]
    request = PromptInput(messages=messages, tools=[READ])
    system, *others = with_tools_as_text(request, [READ]).messages
    assert json.dumps(READ["function"]) in system["content"]
    assert [message["role"] for message in others] == ["user", "assistant", "user", "assistant", "user"]
    assert others[1]["content"] == '{"response": "Hello."}'
    both = '{"tool_calls": [{"name": "f", "arguments": {"a": 1}}, {"name": "f", "arguments": {"a": 1}}]}'
    assert others[3]["content"] == both
    results = [json.loads(line)["tool_result"] for line in others[4]["content"].split("\n")]
    assert results == [{"name": "f", "content": "one"}, {"name": "f", "content": "two"}]
    assert with_tools_as_text(request, []).messages[1]["content"] == "Hello."
