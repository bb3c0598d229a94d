"""Ollama's messages as those of chat/completions: arguments as JSON text, and an id for every call."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from pydantic import ConfigDict, StrictStr

from pipelines.base.deferred_model import DeferredModel
from pipelines.requests.fields.field_types import Items
from server.apis.ollama.images import image_parts


class GivenFunction(DeferredModel):
    model_config = ConfigDict(extra="ignore")
    name: StrictStr
    arguments: dict[str, Any] = {}


class GivenCall(DeferredModel):
    model_config = ConfigDict(extra="ignore")
    function: GivenFunction
    id: StrictStr | None = None


class GivenMessage(DeferredModel):
    """A message; a result of a tool names its call by the id, by the name of the tool, or not at all."""

    model_config = ConfigDict(extra="ignore")
    role: StrictStr
    content: StrictStr | None = None
    thinking: StrictStr | None = None
    images: Items[StrictStr] | None = None
    tool_calls: Items[GivenCall] | None = None
    tool_name: StrictStr | None = None
    name: StrictStr | None = None
    tool_call_id: StrictStr | None = None


def chat_messages(messages: list[GivenMessage]) -> list[dict[str, Any]]:
    """The messages of chat/completions.  Raises RequestError for an image that is not base64."""
    waiting: deque[tuple[str, str]] = deque()  # (id, name) of calls without a result
    chat = []
    for i, message in enumerate(messages):
        written: dict[str, Any] = {"role": message.role.lower(), "content": message.content or ""}
        if message.images:
            written["content"] = _parts(message.content, message.images, f"messages.{i}.images")
        if message.thinking:
            written["reasoning_content"] = message.thinking
        if message.tool_calls:
            calls = [(call.id or f"call_{i}_{k}", call) for k, call in enumerate(message.tool_calls)]
            waiting.extend((call_id, call.function.name) for call_id, call in calls)
            written["tool_calls"] = [_call(call_id, call) for call_id, call in calls]
        if written["role"] == "tool":
            written |= _answered(message, waiting)
        chat.append(written)
    return chat


def goes_on(messages: list[GivenMessage]) -> bool:
    """Whether a reply continues the last message, as in Ollama: text of the assistant's, without calls."""
    last = messages[-1] if messages else GivenMessage(role="user")
    return last.role.lower() == "assistant" and not last.tool_calls and bool((last.content or "").strip())


def _parts(content: str | None, images: list[str], where: str) -> list[dict[str, Any]]:
    text = [{"type": "text", "text": content}] if content else []
    return [*image_parts(images, where), *text]


def _call(call_id: str, call: GivenCall) -> dict[str, Any]:
    function = {"name": call.function.name, "arguments": json.dumps(call.function.arguments)}
    return {"id": call_id, "type": "function", "function": function}


def _answered(message: GivenMessage, waiting: deque[tuple[str, str]]) -> dict[str, Any]:
    """The id and the name of the call that a result is of: the first that waits and could be meant."""
    name = message.tool_name or message.name
    fits = [call for call in waiting if call[0] == message.tool_call_id or (name and call[1] == name)]
    call = next(iter(fits or waiting), (message.tool_call_id or "call_0", name or ""))
    if call in waiting:
        waiting.remove(call)
    called = name or call[1]
    return {"tool_call_id": message.tool_call_id or call[0], **({"name": called} if called else {})}
