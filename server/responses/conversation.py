"""Items → the messages of a chat request.  Knows nothing of where items come from or of templates."""

from __future__ import annotations

from typing import Any

TEXTS = ("input_text", "output_text", "text")
"""Types of parts that are text."""


class Conversation:
    """Items → messages.  What a model said in one turn is one message: reasoning, text, calls.

    `places[i]` says where message `i` came from.
    """

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.places: list[str] = []
        self._turn: dict[str, Any] | None = None  # the assistant's message that may still grow

    def add(self, item: dict[str, Any], place: str) -> None:
        kind = item["type"]
        if kind == "reasoning":
            self._turn_without("content", "tool_calls", place=place)["reasoning"] = _thought(item)
        elif kind == "function_call":
            self._turn_without(place=place).setdefault("tool_calls", []).append(_call(item))
        elif kind == "function_call_output":
            self._append({"role": "tool", "tool_call_id": item["call_id"], **_said(item["output"])}, place)
        elif item["role"] == "assistant":
            self._turn_without("content", "tool_calls", place=place).update(_said(item["content"]))
        else:
            self._append({"role": item["role"], **_said(item["content"])}, place)

    def instruct(self, text: str) -> None:
        """The request's own instructions come before everything."""
        self._append({"role": "system", "content": text}, "instructions")

    def _append(self, message: dict[str, Any], place: str) -> None:
        self.messages.append(message)
        self.places.append(place)
        self._turn = None

    def _turn_without(self, *keys: str, place: str) -> dict[str, Any]:
        """The model's turn, a new one when the last has one of `keys` already."""
        if self._turn is None or any(key in self._turn for key in keys):
            turn = {"role": "assistant"}
            self._append(turn, place)
            self._turn = turn
        return self._turn


def _thought(item: dict[str, Any]) -> str:
    return "\n".join(part["text"] for part in item.get("content") or item.get("summary") or [])


def _call(item: dict[str, Any]) -> dict[str, Any]:
    function = {"name": item["name"], "arguments": item["arguments"]}
    return {"id": item["call_id"], "type": "function", "function": function}


def _said(content: str | list[dict[str, Any]]) -> dict[str, Any]:
    """Text parts under the one name that chat requests share; other parts are theirs to refuse."""
    if isinstance(content, str):
        return {"content": content}
    return {"content": [_part(part) for part in content]}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    return {**part, "type": "text"} if part.get("type") in TEXTS else part
