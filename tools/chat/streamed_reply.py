"""Reads a streamed chat reply: shows each piece as it comes, and puts the reply together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from tools.chat.conversation import Reply


class Display(Protocol):
    """Where the pieces of a reply are shown."""

    def reasoning(self, text: str) -> None: ...

    def content(self, text: str) -> None: ...

    def call(self, text: str) -> None: ...


def read_reply(events: Iterable[Mapping[str, Any]], reply: Reply, display: Display) -> None:
    """Fill `reply`, so that what came before an interruption is in it."""
    for event in events:
        reply.usage = event.get("usage") or reply.usage
        for choice in event.get("choices", ())[:1]:
            reply.finish_reason = choice.get("finish_reason") or reply.finish_reason
            _read_delta(choice.get("delta") or {}, reply, display)


def _read_delta(delta: Mapping[str, Any], reply: Reply, display: Display) -> None:
    if reasoning := delta.get("reasoning_content") or delta.get("reasoning"):
        display.reasoning(reasoning)
    if content := delta.get("content"):
        reply.content += content
        display.content(content)
    for piece in delta.get("tool_calls") or ():
        display.call(_add_call(reply.calls, piece))


def _add_call(calls: list[dict[str, Any]], piece: Mapping[str, Any]) -> str:
    """Add a piece of a tool call to the calls so far; returns the text that shows it."""
    function = piece.get("function") or {}
    index = piece.get("index", len(calls))
    begins = index >= len(calls)
    if begins:
        called = {"name": function.get("name") or "", "arguments": ""}
        calls.append({"id": piece.get("id") or f"call-{index}", "type": "function", "function": called})
    arguments = function.get("arguments") or ""
    calls[min(index, len(calls) - 1)]["function"]["arguments"] += arguments
    return f"\n→ {function.get('name')} {arguments}" if begins else arguments
