"""Brings a conversation into the forms that a chat template takes: content, calls, reasoning and roles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipelines.nodes.text.parsers.tools.earlier_arguments import arguments_in
from pipelines.nodes.text.parsers.tools.json_values import as_json
from pipelines.nodes.text.templates.earlier_calls import AS_GIVEN, CallForms, conform_calls
from pipelines.nodes.text.templates.message_content import Content, Message, text_of
from pipelines.nodes.text.templates.system_messages import SystemForms, place_systems, with_results

STRING, OPENAI, BOTH = "string", "openai", "both"
"""Forms of a message's content: text, a list of parts, either as the client wrote it."""


@dataclass(frozen=True)
class MessageForms:
    """The forms of messages that a template takes.

    `content`: role → form of the content, `other_content` for all other roles; `without_content` is the
    content of a message that has only calls; `arguments_as_text`: the arguments of calls are JSON text, not
    objects; `reads_thinking`: reasoning is read from `thinking`; `systems`: which system messages it takes.
    """

    content: Mapping[str, str] = field(default_factory=dict)
    other_content: str = STRING
    without_content: str | None = ""
    arguments_as_text: bool = False
    reads_thinking: bool = False
    systems: SystemForms = field(default_factory=SystemForms)
    calls: CallForms = AS_GIVEN


def conform(messages: list[Message], forms: MessageForms) -> list[Message]:
    """Copies of the messages in these forms."""
    messages = place_systems(messages, forms.systems)
    if not forms.systems.user_after_results:
        messages = with_results(messages)
    return [_conformed(message, forms) for message in conform_calls(messages, forms.calls)]


def _conformed(message: Message, forms: MessageForms) -> Message:
    out, calls = dict(message), message.get("tool_calls")
    if "content" in out:
        form = forms.content.get(str(out.get("role")), forms.other_content)
        out["content"] = _content(out["content"], form)
    if forms.reads_thinking and out.get("reasoning") and not (calls and out.get("content")):
        out["thinking"] = out["reasoning"]  # gpt-oss refuses it beside calls and content
    if calls:
        arguments = _as_text if forms.arguments_as_text else _as_object
        out["tool_calls"] = [_with_arguments(call, arguments) for call in calls]
        out["content"] = out.get("content") or forms.without_content
    return out


def _content(content: Content, form: str) -> Content:
    if form == STRING:
        return text_of(content)
    if form == OPENAI and not isinstance(content, list):
        return [{"type": "text", "text": content}] if content is not None else []
    return "" if content is None else content


def _with_arguments(call: dict[str, Any], form: Any) -> dict[str, Any]:
    function = call.get("function")
    if not isinstance(function, dict) or "arguments" not in function:
        return call
    return {**call, "function": {**function, "arguments": form(function["arguments"])}}


def _as_object(arguments: Any) -> Any:
    """An object wherever they are JSON of one, or nearly."""
    return arguments_in(arguments) if isinstance(arguments, str) else arguments


def _as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else as_json(arguments)
