"""What tests of responses say and read: pieces of replies, and the events of a stream.

Knows nothing of HTTP.
"""

from __future__ import annotations

import json
from typing import Any

from scripted import said

from pipelines.values.reply_values import ToolCallPiece

PATH = "/v1/responses"

TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the weather",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}},
}


def thought(text: str, **more: Any) -> Any:
    return said("", reasoning=text, num_reasoning=1, is_reasoning=[True], **more)


def called(*pieces: ToolCallPiece, finish: str | None = None) -> Any:
    return said("", finish, tool_calls=list(pieces))


def ask(**fields: Any) -> dict[str, Any]:
    return {"model": "tiny", "input": "hi", **fields}


def events(body: bytes) -> list[Any]:
    """The data of a stream's events; the line before each names it, and every number follows the last."""
    blocks = body.decode().split("\n\n")
    assert blocks.pop() == ""
    blocks = [block for block in blocks if not block.startswith(":")]
    assert blocks.pop() == "data: [DONE]"
    events_found = []
    for block in blocks:
        first, second = block.split("\n")
        data = json.loads(second.removeprefix("data: "))
        assert first == f"event: {data['type']}"
        events_found.append(data)
    return events_found


def types(found: list[Any]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in found]
