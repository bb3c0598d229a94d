"""Bodies of messages requests, and scripts of what a model answers."""

from __future__ import annotations

from typing import Any

from scripted import said

from pipelines.values.reply_values import ToolCallPiece

WEATHER = {
    "name": "get_weather",
    "description": "Current weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CALL = {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Oslo"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "4 degrees"}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "tiny", "max_tokens": 64, "messages": [user("hi")], **fields}


def thought(text: str) -> Any:
    return said(reasoning=text)


def begun(index: int, name: str = "get_weather") -> Any:
    return said(tool_calls=[ToolCallPiece(index, id=f"call_{index}", name=name)])


def argued(index: int, text: str) -> Any:
    return said(tool_calls=[ToolCallPiece(index, text)])


def script(*updates: Any) -> list[Any]:
    """Each piece in a batch of its own."""
    return [[(0, update)] for update in updates]


SCRIPTS = {
    "text": script(said("Hel"), said("lo"), said("", "stop")),
    "nothing": script(said("", "stop")),
    "thinking": script(thought("Let me "), thought("see."), said("Yes."), said("", "stop")),
    "a_call": script(
        said("I will look."),
        begun(0),
        argued(0, '{"city"'),
        argued(0, ': "Oslo"}'),
        said("", "tool_calls"),
    ),
    "two_calls": script(
        begun(0),
        argued(0, '{"city": "Oslo"}'),
        begun(1),
        argued(1, '{"city": "Rome"}'),
        said("", "tool_calls"),
    ),
    "a_call_in_one_piece": script(
        said(
            "Now.",
            "tool_calls",
            tool_calls=[
                ToolCallPiece(0, id="call_0", name="get_weather"),
                ToolCallPiece(0, '{"city": "Oslo"}'),
            ],
        )
    ),
    "text_after_a_call": script(begun(0), argued(0, "{}"), said("Wait."), said("", "tool_calls")),
    "a_call_cut_off": script(
        begun(0), argued(0, '{"city": "Oslo", "country": "No'), said("", "length", num_tokens=62)
    ),
    "a_stop_sequence": script(said("One"), said("", "stop", stop_reason="Two")),
    "too_long": script(said("One", num_tokens=63), said("", "length")),
    "no_room": script(said("One"), said("", "length")),
    "unicode": script(said('na\u00efve \u2028 \U0001f600 "quoted"'), said("", "stop")),
}
