"""Messages and their content blocks, and their conversion to chat messages.

Does not depend on tool declarations, templates or HTTP.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, StrictStr

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.field_types import Items, field_error
from pipelines.requests.fields.known_fields import check_fields
from pipelines.requests.fields.unknown_fields import note_left_out
from server.apis.messages.image_source import check_source, url_of
from server.apis.messages.unsupported_fields import IGNORED_IN_BLOCKS, LEFT_OUT

REQUIRED: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "image": ("source",),
    "thinking": ("thinking",),
    "redacted_thinking": (),
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id",),
    "search_result": ("title", "source", "content"),
    "document": ("source",),
    "tool_reference": ("tool_name",),
}
"""Kind of block → the fields it must have."""
OPTIONAL: dict[str, tuple[str, ...]] = {
    "tool_result": ("content", "is_error"),
    "redacted_thinking": ("data",),
    "document": ("title", "context"),
}
BY_ROLE: dict[str, tuple[str, ...]] = {
    "user": ("text", "image", "document", "search_result", "tool_result"),
    "assistant": ("text", "thinking", "redacted_thinking", "tool_use"),
    "system": ("text",),
}
"""Role → the kinds of blocks that its messages may hold."""
ACCOUNTING_PREFIX = "x-anthropic-billing-header:"
"""A system block with this prefix is a client's accounting, new in every request.  It is left out of the
prompt, so that equal prefixes stay equal."""
INSIDE: dict[str, tuple[str, ...]] = {
    "tool_result": ("text", "image", "document", "search_result", "tool_reference"),
    "search_result": ("text",),
}
"""Kind of block → the kinds of blocks that its content may hold."""
SHOWN = ("text", "image", "document", "search_result", "tool_reference")
"""The kinds of blocks that are content of a chat message."""
TEXTS = ("text", "document", "tool_reference")
"""The kinds whose content is `text`, which is written for a document and a reference once it is read."""
MEDIA = ("container_upload", "browser_state")


def _content(value: Any) -> Any:
    if value is not None and not isinstance(value, str | list):
        raise field_error(f"must be a string or a list of content blocks, got {quoted(value)}")
    return [{"type": "text", "text": value}] if isinstance(value, str) else value and [*map(_read, value)]


def _read(block: Any) -> Any:
    """A block, or of one that is left out its type alone: the others of its fields may have any form."""
    kind = block.get("type") if isinstance(block, dict) else None
    return {"type": kind} if isinstance(kind, str) and kind in LEFT_OUT else block


class MessageBlock(DeferredModel):
    """One content block; its `type` determines which of the other fields it has."""

    model_config = ConfigDict(extra="allow")
    type: StrictStr
    text: StrictStr | None = None
    thinking: StrictStr | None = None
    data: StrictStr | None = None
    id: StrictStr | None = None
    name: StrictStr | None = None
    input: dict[str, Any] | None = None
    tool_use_id: StrictStr | None = None
    content: Content | None = None
    is_error: bool | None = None
    source: dict[str, Any] | StrictStr | None = None
    title: StrictStr | None = None
    context: StrictStr | None = None
    tool_name: StrictStr | None = None

    def check(self, allowed: tuple[str, ...], where: str) -> None:
        """Raise RequestError, with its place, for a block that is not allowed there or is incomplete."""
        if self.type in MEDIA:
            raise RequestError(
                f"`{where}`: `{self.type}` blocks are refused; models here read text, and some read images",
                field=where,
            )
        if self.type in LEFT_OUT and allowed is BY_ROLE["assistant"]:
            note_left_out("messages", self.type)
            return
        if self.type not in allowed:
            raise RequestError(
                f"`{where}.type`: {quoted(self.type)} is not allowed here; allowed: {', '.join(allowed)}",
                field=f"{where}.type",
            )
        for name in REQUIRED[self.type]:
            if getattr(self, name) is None:
                raise RequestError(
                    f"`{where}.{name}` is required in a block of type `{self.type}`", field=f"{where}.{name}"
                )
        self._check_fields(where)
        self._check_source(f"{where}.source")
        for i, block in enumerate(self.content or []):
            block.check(INSIDE[self.type], f"{where}.content.{i}")

    def _check_source(self, where: str) -> None:
        """The source of a file is an object, that of a search result a text."""
        is_file = self.type in ("image", "document")
        if self.type == "image" and isinstance(self.source, dict):
            check_source(self.source, where)
        elif self.source is not None and isinstance(self.source, dict) != is_file:
            wanted = "an object" if is_file else "a string"
            raise RequestError(f"`{where}` must be {wanted}, got {quoted(self.source)}", field=where)

    def _check_fields(self, where: str) -> None:
        """Refuse fields of other kinds of blocks, and unknown ones, unless they are null."""
        known = ("type", *REQUIRED[self.type], *OPTIONAL.get(self.type, ()))
        others = {name: getattr(self, name) for name in self.model_fields_set if name not in known}
        check_fields(others, known, ignored=IGNORED_IN_BLOCKS, where=f"{where}.")


Content = Annotated[Items[MessageBlock], BeforeValidator(_content)]
MessageBlock.model_rebuild()


class AnthropicMessage(DeferredModel):
    """One message of a conversation."""

    model_config = ConfigDict(extra="allow")
    role: Literal["user", "assistant", "system"]
    content: Content

    def check(self, where: str) -> None:
        """Raise RequestError, with its place, for what is not allowed."""
        check_fields(self.model_extra or {}, type(self).model_fields, where=f"{where}.")
        for i, block in enumerate(self.content):
            block.check(BY_ROLE[self.role], f"{where}.content.{i}")


def chat_messages(messages: list[AnthropicMessage]) -> list[dict[str, Any]]:
    """Checked messages as chat messages; adjacent messages of one role are one turn, as at Anthropic."""
    turns: list[tuple[str, list[MessageBlock]]] = []
    for message in messages:
        if turns and turns[-1][0] == message.role:
            turns[-1][1].extend(message.content)
        else:
            turns.append((message.role, list(message.content)))
    names = {block.id: block.name for _, blocks in turns for block in blocks if block.type == "tool_use"}
    converted = []
    for role, blocks in turns:
        converted += [_assistant(blocks)] if role == "assistant" else _turn(role, blocks, names)
    return converted


def _assistant(blocks: list[MessageBlock]) -> dict[str, Any]:
    """One chat message with the text, thinking and tool calls of the blocks, each in their order."""
    message: dict[str, Any] = {"role": "assistant", "content": chat_content(blocks)}
    thoughts = [block.thinking or "" for block in blocks if block.type == "thinking"]
    if thoughts:
        message["reasoning"] = "\n".join(thoughts)
    calls = [
        {"id": block.id, "type": "function", "function": {"name": block.name, "arguments": block.input}}
        for block in blocks
        if block.type == "tool_use"
    ]
    return message | ({"tool_calls": calls} if calls else {})


def _turn(role: str, blocks: list[MessageBlock], names: dict[str | None, str | None]) -> list[dict[str, Any]]:
    """The chat messages of one turn: one for each tool result, one for adjacent texts and images."""
    messages: list[dict[str, Any]] = []
    shown: list[MessageBlock] = []
    for block in [*blocks, None]:
        if block is not None and block.type in SHOWN:
            shown.append(block)
            continue
        if shown:
            messages.append({"role": role, "content": chat_content(shown)})
            shown = []
        if block is not None:
            messages.append(_result(block, names.get(block.tool_use_id)))
    return messages


def _result(block: MessageBlock, name: str | None) -> dict[str, Any]:
    message = {
        "role": "tool",
        "tool_call_id": block.tool_use_id,
        "content": chat_content(block.content or []),
    }
    return message | ({"name": name} if name else {})


def system_messages(blocks: list[MessageBlock]) -> list[dict[str, Any]]:
    """The system prompt as at most one chat message."""
    shown = [block for block in blocks if not (block.text or "").startswith(ACCOUNTING_PREFIX)]
    content = chat_content(shown)
    return [{"role": "system", "content": content}] if content else []


def chat_content(blocks: list[MessageBlock]) -> str | list[dict[str, Any]]:
    """The texts and images among blocks, as the content of a chat message, without empty texts."""
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if block.type == "image" and isinstance(block.source, dict):
            parts.append({"type": "image_url", "image_url": {"url": url_of(block.source)}})
        elif block.type == "search_result":
            parts.append({"type": "text", "text": _search_result(block)})
        elif block.type in TEXTS and block.text:
            parts.append({"type": "text", "text": block.text})
    if len(parts) == 1 and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return parts or ""


def _search_result(block: MessageBlock) -> str:
    """The text of a search result under its title and its source, which a reply can then name."""
    texts = [part.text or "" for part in block.content or []]
    return "\n".join([f"Title: {block.title}", f"Source: {block.source}", *texts])


def placed_blocks(messages: list[AnthropicMessage]) -> Iterator[tuple[str, MessageBlock]]:
    """Each block of checked messages with its place, those in results too, in the order of chat messages."""
    for i, message in enumerate(messages):
        for k, block in enumerate(message.content):
            where = f"messages.{i}.content.{k}"
            yield where, block
            inner = block.content or [] if block.type == "tool_result" else []
            yield from ((f"{where}.content.{j}", each) for j, each in enumerate(inner))


def image_places(messages: list[AnthropicMessage]) -> Iterator[str]:
    """Where the images of checked messages are, in the order in which chat messages have them."""
    return (where for where, block in placed_blocks(messages) if block.type == "image")
