"""Brings a conversation into the forms that a chat template takes: content, calls, reasoning and roles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipelines.nodes.text.parsers.tools.json_values import as_json
from pipelines.nodes.text.parsers.tools.mended_json import arguments_in
from pipelines.nodes.text.templates.earlier_calls import AS_GIVEN, CallForms, conform_calls

STRING, OPENAI, BOTH = "string", "openai", "both"
"""Forms of a message's content: text, a list of parts, either as the client wrote it."""
Content = str | list[dict[str, Any]] | None
Message = dict[str, Any]
BETWEEN_SYSTEMS = "\n\n"


@dataclass(frozen=True)
class MessageForms:
    """The forms of messages that a template takes.

    `content`: role → form of the content, `other_content` for all other roles; `without_content` is the
    content of a message that has only calls; `arguments_as_text`: the arguments of calls are JSON text, not
    objects; `reads_thinking`: reasoning is read from `thinking`; `knows_developer` and `knows_system`: there
    is such a role.
    """

    content: Mapping[str, str] = field(default_factory=dict)
    other_content: str = STRING
    without_content: str | None = ""
    arguments_as_text: bool = False
    reads_thinking: bool = False
    knows_developer: bool = False
    knows_system: bool = True
    calls: CallForms = AS_GIVEN


def conform(messages: list[Message], forms: MessageForms) -> list[Message]:
    """Copies of the messages in these forms.

    Where the template has no developer role, developer messages become system messages; where it has no
    system role, those stand in front of what the user says first.
    """
    roles = {message.get("role") for message in messages}
    if not forms.knows_developer and "developer" in roles:
        messages = _one_system(messages)
    if not forms.knows_system and roles & {"system", "developer"} and "user" in roles:
        messages = _in_front_of_user(_one_system(messages))
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


def _one_system(messages: list[Message]) -> list[Message]:
    """Developer messages as system messages, all joined into the first: few templates accept later ones."""
    systems = [each for each in messages if each.get("role") in ("system", "developer")]
    others = [each for each in messages if each.get("role") not in ("system", "developer")]
    texts = [text for each in systems if (text := text_of(each.get("content")))]
    return [{**systems[0], "role": "system", "content": BETWEEN_SYSTEMS.join(texts)}, *others]


def _in_front_of_user(messages: list[Message]) -> list[Message]:
    """The text of the first message, a system message, in front of the first user message."""
    text, others = text_of(messages[0].get("content")), messages[1:]
    at = next(i for i, each in enumerate(others) if each.get("role") == "user")
    return [*others[:at], _with_text(text, others[at]), *others[at + 1 :]]


def _with_text(text: str, message: Message) -> Message:
    """The message with a text in front of its content."""
    content = message.get("content")
    if isinstance(content, list):
        return {**message, "content": [{"type": "text", "text": text}, *content]}
    return {**message, "content": BETWEEN_SYSTEMS.join(filter(None, (text, content)))}


def text_of(content: Content) -> str:
    """Text parts joined by a line break, as vLLM joins them."""
    if isinstance(content, list):
        return "\n".join(part.get("text") or "" for part in content)
    return content or ""


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
