"""Converts input items to the messages of a chat request."""

from __future__ import annotations

from typing import Any

TEXT_PARTS = ("input_text", "output_text", "text")
"""Types of content parts that are text."""


class ChatMessages:
    """Builds messages from items.  The items of one assistant turn (reasoning, text, calls) form one message.

    `places[i]` is the request field of message `i`, for errors.
    """

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.places: list[str] = []
        self._turn: dict[str, Any] | None = None  # the assistant message that following items extend

    def add(self, item: dict[str, Any], place: str) -> None:
        kind = item["type"]
        if kind == "reasoning":
            self._turn_without("content", "tool_calls", place=place)["reasoning"] = _reasoning_text(item)
        elif kind == "function_call":
            self._turn_without(place=place).setdefault("tool_calls", []).append(_tool_call(item))
        elif kind == "function_call_output":
            self._append({"role": "tool", "tool_call_id": item["call_id"], **_content(item["output"])}, place)
        elif item["role"] == "assistant":
            self._turn_without("content", "tool_calls", place=place).update(_content(item["content"]))
        else:
            self._append({"role": item["role"], **_content(item["content"])}, place)

    def add_instructions(self, text: str) -> None:
        """Add the request's instructions, the first message."""
        self._append({"role": "system", "content": text}, "instructions")

    def _append(self, message: dict[str, Any], place: str) -> None:
        self.messages.append(message)
        self.places.append(place)
        self._turn = None

    def _turn_without(self, *keys: str, place: str) -> dict[str, Any]:
        """The current assistant message; a new one when it already has one of `keys`."""
        if self._turn is None or any(key in self._turn for key in keys):
            turn = {"role": "assistant"}
            self._append(turn, place)
            self._turn = turn
        return self._turn


def _reasoning_text(item: dict[str, Any]) -> str:
    return "\n".join(part["text"] for part in item.get("content") or item.get("summary") or [])


def _tool_call(item: dict[str, Any]) -> dict[str, Any]:
    function = {"name": item["name"], "arguments": item["arguments"]}
    return {"id": item["call_id"], "type": "function", "function": function}


def _content(content: str | list[dict[str, Any]]) -> dict[str, Any]:
    """Content with the text part type of chat requests; the chat request checks other parts."""
    if isinstance(content, str):
        return {"content": content}
    return {"content": [_part(part) for part in content]}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    return {**part, "type": "text"} if part.get("type") in TEXT_PARTS else part
