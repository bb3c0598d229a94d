"""What parse_reply asks of the text before it, and hands to its parsers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from pipelines.nodes.reply import ParseReply
from pipelines.tasks import Generation
from pipelines.values import Stream, TextUpdate

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"zip": {"type": "string"}, "days": {"type": "integer"}},
        },
    },
}
CALL = (
    "<tool_call>\n<function=get_weather>\n<parameter=zip>\n0150\n</parameter>\n"
    "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"
)


def parsed(settings, request, text=""):
    """The request after the node ran on it, and what the node's machine makes of a whole text."""
    node = ParseReply(ParseReply.Config(**settings), Path())
    call = SimpleNamespace(request=request, prompt_text="")
    made = []

    class Text(Stream):
        def __init__(self):
            pass

        def through(self, make):
            made.append(make)
            return self

    node.run(call, Text())
    return made[0](0).push(TextUpdate(text, 1, [], finish="stop"))


@pytest.mark.parametrize(
    ("settings", "fields", "skips"),
    [
        ({"tools": "mistral"}, {"tools": [WEATHER]}, False),
        ({"tools": "mistral"}, {}, True),
        ({"tools": "mistral"}, {"tools": [WEATHER], "parse_tools": False}, True),
        ({"reasoning": "mistral"}, {}, False),
        ({"reasoning": "mistral"}, {"parse_reasoning": False}, True),
        ({"reasoning": "qwen3"}, {}, True),
        ({}, {"tools": [WEATHER]}, True),
    ],
)
def test_text_keeps_special_tokens_where_marks_may_be_some(settings, fields, skips):
    request = Generation(messages=[{"role": "user", "content": "?"}], **fields)
    parsed(settings, request)
    assert request.skip_special_tokens is skips


def test_parameters_have_the_types_that_the_declared_tools_say():
    request = Generation(messages=[{"role": "user", "content": "?"}], tools=[WEATHER])
    reply = parsed({"tools": "qwen3_coder"}, request, CALL)
    (call,) = reply.tool_calls
    assert (call.name, call.arguments) == ("get_weather", '{"zip": "0150", "days": 3}')
    assert reply.finish == "tool_calls"
