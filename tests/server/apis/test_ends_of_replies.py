"""Why a reply ended, as each API says it: the parser of replies stands between the engine's reason and theirs."""

from __future__ import annotations

import json

import pytest
from asgi_socket import AsgiSocket
from scripted import ScriptedPipeline

from pipelines.nodes.text.parsers.tables import TOOLS
from pipelines.nodes.text.replies.parse_reply import ReplyParser
from pipelines.values.reply_values import TextUpdate
from pipelines.values.tasks import GenerationInput
from pipelines.wire.token_piece import TokenPiece

FUNCTION = {"name": "add", "parameters": {"type": "object"}}
TOOL = {"type": "function", "function": FUNCTION}
TEXT = "It is 3."
CALL = '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'
CHAT = {"messages": [{"role": "user", "content": "hi"}], "tools": [TOOL]}
DECLARED = {"functionDeclarations": [{"name": "add"}]}
ENDS = {
    "/v1/chat/completions": (CHAT, lambda reply: reply["choices"][0]["finish_reason"]),
    "/v1/messages": (
        {"max_tokens": 64, **CHAT, "tools": [{"name": "add", "input_schema": {"type": "object"}}]},
        lambda reply: reply["stop_reason"],
    ),
    "/v1/responses": (
        {"input": "hi", "tools": [{"type": "function", **FUNCTION}]},
        lambda reply: (reply["status"], (reply["incomplete_details"] or {}).get("reason")),
    ),
    "/api/chat": ({"stream": False, **CHAT}, lambda reply: reply["done_reason"]),
    "/v1beta/models/tiny:generateContent": (
        {"contents": [{"parts": [{"text": "hi"}]}], "tools": [DECLARED]},
        lambda reply: reply["candidates"][0]["finishReason"],
    ),
}
WORDS = {
    (TEXT, "stop"): ["stop", "end_turn", ("completed", None), "stop", "STOP", ("completed", None)],
    (CALL, "stop"): ["tool_calls", "tool_use", ("completed", None), "stop", "STOP", ("completed", None)],
    (TEXT, "length"): [
        "length",
        "model_context_window_exceeded",
        ("incomplete", "max_output_tokens"),
        "length",
        "MAX_TOKENS",
        ("incomplete", "max_output_tokens"),
    ],
    (TEXT, "repetition"): [
        "repetition",
        "end_turn",
        ("completed", None),
        "stop",
        "OTHER",
        ("incomplete", "max_output_tokens"),
    ],
    (TEXT, "content_filter"): [
        "content_filter",
        "refusal",
        ("incomplete", "content_filter"),
        "stop",
        "SAFETY",
        ("incomplete", "content_filter"),
    ],
}
"""What a model writes, and why the engine ends it: the words of each API in ENDS, then those of realtime."""


def parsed(text, finish):
    """The updates of a reply as the parser of a graph gives them."""
    parser = ReplyParser(None, TOOLS["hermes"]([TOOL]), GenerationInput(tools=[TOOL]))
    pieces = [TextUpdate(TokenPiece([], 1), part, [part]) for part in text]
    pieces.append(TextUpdate(TokenPiece([], 0, finish), "", []))
    return [[(0, parser.push(piece))] for piece in pieces]


async def said_live(app):
    """The end of a response in a conversation, and the statuses of its items."""
    tools = [{"type": "function", **FUNCTION}]
    user = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    async with AsgiSocket(app, "/v1/realtime?model=tiny") as socket:
        socket.say(
            {"type": "session.update", "session": {"type": "realtime", "tools": tools}},
            {"type": "conversation.item.create", "item": user},
            {"type": "response.create"},
        )
        done = (await socket.until("response.done"))[-1]["response"]
    details = done["status_details"] or {}
    assert {item["status"] for item in done["output"]} == {
        "completed" if done["status"] == "completed" else "incomplete"
    }
    return done["status"], details.get("reason")


@pytest.mark.parametrize(("text", "finish"), WORDS, ids=lambda value: value[:10])
def test_each_api_says_how_a_reply_ended(make_rig, text, finish):
    pipeline = ScriptedPipeline(tools="hermes")
    pipeline.batches = parsed(text, finish)
    rig = make_rig(pipeline)

    async def scenario(client):
        said = []
        for path, (body, read) in ENDS.items():
            answer = await client.post(path, {"model": "tiny", **body})
            assert answer.status == 200, answer.body
            said.append(read(json.loads(answer.body)))
        return [*said, await said_live(rig.app)]

    assert rig.run(scenario) == WORDS[text, finish]
