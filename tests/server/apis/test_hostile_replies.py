"""Whatever a model writes, every API answers: whole replies are read, and streams say the same and end."""

from __future__ import annotations

import json

import pytest
from breadth import after
from scripted import ScriptedPipeline, said

from pipelines.nodes.text.parsers.tables import TOOLS
from pipelines.nodes.text.parsers.tools.families import FAMILIES
from pipelines.nodes.text.replies.parse_reply import ReplyParser
from pipelines.values.reply_values import TextUpdate
from pipelines.values.tasks import GenerationInput
from pipelines.wire.token_piece import TokenPiece

PARAMETERS = {"type": "object", "properties": {"s": {"type": "string"}, "tags": {"type": "array"}}}
FUNCTION = {"name": "f", "parameters": PARAMETERS}
TOOL = {"type": "function", "function": FUNCTION}
ASKED = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}], "tools": [TOOL]},
    "/v1/messages": {
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 64,
        "tools": [{"name": "f", "input_schema": PARAMETERS}],
    },
    "/v1/responses": {"input": "hi", "tools": [{"type": "function", **FUNCTION}]},
}
VALUES = '{"tags": ["\\ud83d", {"\\ude00": "\\u0000\0"}], "n": 1e999, "m": -Infinity, "n": [[[['
HOSTILE = VALUES + ']]]], "s": "\\d\n'
BODIES = [
    *(f'{{"name": "f\\ud83d", "arguments": {each}' for each in (HOSTILE, VALUES)),
    f'[{{"arguments": {HOSTILE}"}}, "name": "f"}}]',
    f"f[ARGS]{HOSTILE}",
    f"functions.f:0<|tool_call_argument_begin|>{HOSTILE}",
    f"function<｜tool▁sep｜>f\n```json\n{HOSTILE}",
    f"f<｜tool▁sep｜>{HOSTILE}",
    f"f <|message|>{HOSTILE}",
    'f>\n<parameter=tags>\n["\\ud83d"]\n</parameter>\n<parameter=s>\nopen',
    '"f">\n<parameter name="tags">["\\ud83d"]</parameter>\n<parameter name="s">open',
    'f\n<arg_key>tags</arg_key><arg_value>["\\ud83d"]</arg_value><arg_key>s</arg_key><arg_value>open',
    "[f(tags=['\\ud83d', {'\\ude00': '\0'}]), f()]",
    'call:f{tags:["\\ud83d", 1e999],s:"\\ud83d"}',
    f'[{{"tool_name": "f", "parameters": {HOSTILE}"}}}}]',
    '[{"f": {"tags": ["\\ud83d", {"\\ude00": "\\u0000"}]}}]',
    f"f>{HOSTILE}",
    'f"><param name="tags">["\\ud83d"]</param>',
    *(
        f'"f">\n<{mark}parameter name="tags">["\\ud83d"]</{mark}parameter>\n<{mark}parameter name="s">open'
        for mark in ("｜DSML｜", "atem:", "steptml:")
    ),
]


def replied(family, size):
    """What the parser of a family gives for blocks of all forms, so many characters at a time."""
    blocks = FAMILIES[family].blocks
    text = "😀".join(f"{block.open}{body}{block.close}" for block in blocks for body in BODIES)
    if blocks[0].bare:  # a call is the first thing that is said
        begun = [body for body in BODIES if body.startswith(blocks[0].open)]
        text = next(body for body in begun if TOOLS[family]([TOOL]).push(body, final=True)[1])
    parser = ReplyParser(None, TOOLS[family]([TOOL]), GenerationInput(tools=[TOOL]))
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    updates = [parser.push(TextUpdate(TokenPiece([], 1), piece, [piece])) for piece in pieces]
    updates.append(parser.push(TextUpdate(TokenPiece([], 0, "stop"), "", [])))
    return [[(0, update)] for update in updates if update.content or update.tool_calls or update.piece.finish]


MARKED = [name for name, family in FAMILIES.items() if not family.blocks[0].bare]


@pytest.mark.parametrize("family", MARKED)
def test_half_of_a_call_is_in_no_reply_that_a_limit_cuts(make_rig, family):
    text = f"I look.{FAMILIES[family].blocks[0].open}"
    parser = ReplyParser(None, TOOLS[family]([TOOL]), GenerationInput(tools=[TOOL]))
    updates = [parser.push(TextUpdate(TokenPiece([], 1), letter, [letter])) for letter in text]
    updates.append(parser.push(TextUpdate(TokenPiece([], 0, "length"), "", [])))
    pipeline = ScriptedPipeline(tools=family)
    pipeline.batches = [[(0, update)] for update in updates if update.content or update.piece.finish]

    async def scenario(client):
        for path, fields in ASKED.items():
            answer = await client.post(path, {"model": "tiny", **fields})
            assert whole_of(path, answer.json) == ("I look.", [])

    make_rig(pipeline).run(scenario)


def finite(text):
    raise AssertionError(f"{text} is no number of JSON")


def read(data):
    return json.loads(data, parse_constant=finite)


def streamed(body):
    """The data of the events of a stream."""
    lines = [line for block in body.decode().split("\n\n") for line in block.split("\n")]
    return [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]


def whole_of(path, reply):
    """(text, arguments of each call) of a whole reply."""
    if path.endswith("completions"):
        message = reply["choices"][0]["message"]
        arguments = [read(call["function"]["arguments"]) for call in message.get("tool_calls", [])]
        return message["content"] or "", arguments
    items = reply["content"] if path.endswith("messages") else reply["output"]
    texts = [part["text"] for item in items for part in [item, *item.get("content", [])] if "text" in part]
    calls = [
        item["input"] if "input" in item else read(item["arguments"]) for item in items if "name" in item
    ]
    return "".join(texts), calls


def stream_of(path, events):
    """The same of a stream, which has its last event."""
    if path.endswith("responses"):
        assert [read(event)["type"] for event in events[-2:-1]] == ["response.completed"]
        return whole_of(path, read(events[-2])["response"])
    if path.endswith("messages"):
        events_read = [read(event) for event in events]
        assert events_read[-1]["type"] == "message_stop"
        deltas = [
            (event["index"], event["delta"])
            for event in events_read
            if event["type"] == "content_block_delta"
        ]
        kept = {index: "" for index, delta in deltas if "partial_json" in delta}
        for index, delta in deltas:
            if index in kept:
                kept[index] += delta["partial_json"]
        return "".join(delta.get("text", "") for _, delta in deltas), [
            read(arguments) for arguments in kept.values()
        ]
    assert events[-1] == "[DONE]"
    deltas = [read(event)["choices"][0]["delta"] for event in events[:-1]]
    assert read(events[-2])["choices"][0]["finish_reason"]
    kept = {}
    for piece in (piece for delta in deltas for piece in delta.get("tool_calls", [])):
        kept[piece["index"]] = kept.get(piece["index"], "") + (piece["function"].get("arguments") or "")
    return "".join(delta.get("content") or "" for delta in deltas), [
        read(arguments) for arguments in kept.values()
    ]


@pytest.mark.parametrize("size", after(1, [25, 5]))
@pytest.mark.parametrize("family", TOOLS)
def test_every_api_answers(make_rig, family, size):
    pipeline = ScriptedPipeline(tools=family)
    pipeline.batches = replied(family, size)
    answers = []

    async def scenario(client):
        for path, fields in ASKED.items():
            answer = await client.post(path, {"model": "tiny", **fields})
            assert answer.status == 200, answer.body
            answers.append(whole_of(path, read(answer.body)))
            answer = await client.post(path, {"model": "tiny", "stream": True, **fields})
            assert answer.status == 200, answer.body
            answers.append(stream_of(path, streamed(answer.body)))

    make_rig(pipeline).run(scenario)
    assert all(isinstance(argument, dict) for _, arguments in answers for argument in arguments)
    assert all(calls[1] == answers[0][1] for calls in answers)
    assert answers[0][1], "no body is a call of this family: add one"


LOST = [[(0, said("a\ud83d"))], [(0, said("", "stop"))]]
"""What no parser gives, and JSON has no place for."""


@pytest.mark.parametrize("path", [*ASKED, "/v1/completions"])
def test_what_cannot_be_encoded_ends_a_stream_with_its_last_event(rig, path):
    rig.pipeline.batches = LOST
    fields = ASKED.get(path, {"prompt": "hi"})
    answer = rig.post(path, {"model": "tiny", **fields})
    assert answer.status in (200, 500)
    assert (answer.status == 500) == ("error" in answer.json and answer.json["error"] is not None)
    events = streamed(rig.post(path, {"model": "tiny", "stream": True, **fields}).body)
    assert "error" in events[-1] if path.endswith("messages") else events[-1] == "[DONE]"
    assert path.endswith("messages") or "error" in events[-2] or "response.completed" in events[-2]


@pytest.mark.parametrize("text", ["\0", "\ufffd", "\u2028\x1f\x7f", "😀\u200d", '{"a": 1e999}', "\\ud83d"])
@pytest.mark.parametrize("path", [*ASKED, "/v1/completions"])
def test_odd_texts_are_texts(rig, path, text):
    rig.pipeline.batches = [[(0, said(text))], [(0, said("", "stop"))]]
    fields = ASKED.get(path, {"prompt": "hi"})
    answer = rig.post(path, {"model": "tiny", **fields})
    assert answer.status == 200
    assert json.dumps(text)[1:-1] in json.dumps(answer.json)
    assert streamed(rig.post(path, {"model": "tiny", "stream": True, **fields}).body)


LINES = {
    **{path: {**fields, "stream": True} for path, fields in ASKED.items()},
    "/v1/completions": {"prompt": "hi", "stream": True},
    "/completion": {"prompt": "hi", "stream": True},
    "/api/chat": {"messages": [{"role": "user", "content": "hi"}]},
    "/api/generate": {"prompt": "hi"},
    "/v1beta/models/tiny:streamGenerateContent?alt=sse": {"contents": [{"parts": [{"text": "hi"}]}]},
}


@pytest.mark.parametrize("path", LINES)
def test_lines_of_a_stream_are_whole_for_clients_that_end_them_elsewhere(rig, path):
    said_text = "a\x85b\u2028c\u2029d"
    rig.pipeline.batches = [[(0, said(said_text))], [(0, said("", "stop"))]]
    answer = rig.post(path, {"model": "tiny", **LINES[path]})
    assert answer.status == 200
    lines = [line.removeprefix("data: ") for line in answer.body.decode().splitlines()]
    events = [json.loads(line) for line in lines if line.startswith("{")]
    assert json.dumps(said_text)[1:-1] in json.dumps(events)
    assert "".join(lines).isascii()
