"""Conversations with tools for templates that have no form of them: schemas, calls and results as text.

The form is llama.cpp's generic one: the schemas in the system prompt, and each reply an object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pipelines.nodes.text.parsers.tools.earlier_arguments import arguments_in
from pipelines.nodes.text.parsers.tools.generic import CALLS, RESPONSE
from pipelines.nodes.text.parsers.tools.json_values import as_json
from pipelines.nodes.text.templates.message_content import BETWEEN_TEXTS, text_of
from pipelines.values.tasks import PromptInput

Message = dict[str, Any]
RESULT = "tool_result"
SHOWN = "You can call these tools:\n{tools}\n\n"
REPLY = (
    f'Reply with one JSON object: {{"{CALLS}": [{{"name": NAME, "arguments": OBJECT}}]}} to call tools, or '
    f'{{"{RESPONSE}": TEXT}} to answer.'
)


def with_tools_as_text(request: PromptInput, shown: Sequence[dict[str, Any]]) -> PromptInput:
    """The request without tools; `shown` are those that its system prompt describes."""
    names = dict(_named_calls(request.messages or []))
    messages = [_as_text(message, names, is_object=bool(shown)) for message in request.messages or []]
    if shown:
        tools = "\n".join(as_json(tool["function"]) for tool in shown)
        messages = _with_system(SHOWN.format(tools=tools) + REPLY, messages)
    return replace(request, messages=_joined(messages), tools=[])


def _named_calls(messages: list[Message]) -> Iterator[tuple[Any, Any]]:
    """The ids and names of all calls."""
    for message in messages:
        for call in message.get("tool_calls") or []:
            yield call.get("id"), call["function"]["name"]


def _as_text(message: Message, names: dict[Any, Any], is_object: bool) -> Message:
    role, calls = message.get("role"), message.get("tool_calls")
    if role == "tool":
        name = message.get("name") or names.get(message.get("tool_call_id"))
        result = {"name": name, "content": text_of(message.get("content"))}
        return {"role": "user", "content": as_json({RESULT: result})}
    if role != "assistant" or not (calls or is_object):
        return message
    others = {key: value for key, value in message.items() if key != "tool_calls"}
    said = {CALLS: [_call(call) for call in calls]} if calls else {RESPONSE: text_of(message.get("content"))}
    return {**others, "content": as_json(said)}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = function.get("arguments")
    return {
        "name": function["name"],
        "arguments": arguments_in(arguments) if isinstance(arguments, str) else arguments,
    }


def _with_system(text: str, messages: list[Message]) -> list[Message]:
    if messages and messages[0].get("role") in ("system", "developer"):
        first = messages[0]
        return [{**first, "content": text_of(first.get("content")) + BETWEEN_TEXTS + text}, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def _joined(messages: list[Message]) -> list[Message]:
    """Results of tools that follow one another are one message: templates want turns."""
    joined: list[Message] = []
    for message in messages:
        before = joined[-1] if joined else {}
        texts = before.get("content"), message.get("content")
        if message.get("role") == before.get("role") == "user" and all(
            isinstance(text, str) for text in texts
        ):
            joined[-1] = {**before, "content": "\n".join(map(str, texts))}
        else:
            joined.append(message)
    return joined
