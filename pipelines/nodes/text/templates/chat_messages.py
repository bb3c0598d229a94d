"""Brings a conversation into the form that a chat template takes: content format and roles (vLLM's rules)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pipelines.nodes.text.templates.content_format import OPENAI

Content = str | list[dict[str, Any]] | None
BETWEEN_SYSTEMS = "\n\n"


def conform(
    messages: list[dict[str, Any]], content_format: str, knows_developer: bool
) -> list[dict[str, Any]]:
    """Copies of the messages: content in the format, the arguments of calls as objects.

    Where the template has no developer role, developer messages become system messages.
    """
    out = [dict(message) for message in messages]
    if not knows_developer and any(message.get("role") == "developer" for message in out):
        out = _one_system(out)
    form: Callable[[Content], Any] = _parts if content_format == OPENAI else text_of
    for message in out:
        if "content" in message:
            message["content"] = form(message["content"])
        if message.get("tool_calls"):
            message["tool_calls"] = [_with_object(call) for call in message["tool_calls"]]
    return out


def _one_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Developer messages as system messages, all joined into the first: few templates accept later ones."""
    systems = [each for each in messages if each.get("role") in ("system", "developer")]
    others = [each for each in messages if each.get("role") not in ("system", "developer")]
    texts = [text for each in systems if (text := text_of(each.get("content")))]
    return [{**systems[0], "role": "system", "content": BETWEEN_SYSTEMS.join(texts)}, *others]


def text_of(content: Content) -> str:
    """Text parts joined by a line break, as vLLM joins them."""
    if isinstance(content, list):
        return "\n".join(part.get("text") or "" for part in content)
    return content or ""


def _parts(content: Content) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content or [])


def _with_object(call: dict[str, Any]) -> dict[str, Any]:
    """A call whose arguments are an object wherever they are JSON of one."""
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except (ValueError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": arguments}} if isinstance(arguments, dict) else call
