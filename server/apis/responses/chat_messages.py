"""Converts input items to the messages of a chat request."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pipelines.requests.fields.unknown_fields import note_left_out
from pipelines.values.tasks import TEXT_ARGUMENT
from server.apis.responses.built_in_tools import BUILT_IN
from server.apis.responses.compaction import ASK, opened
from server.apis.responses.item_models import LEFT_OUT
from server.apis.responses.tool_table import ToolTable
from server.apis.responses.tools import SEARCH, read_tools

if TYPE_CHECKING:
    from server.media.file_parts import FileReader

TEXT_PARTS = ("input_text", "output_text", "text")
"""Types of content parts that are text."""
IMAGE_PART, FILE_PART = "input_image", "input_file"
NO_IMAGE = "[An image is left out here: this model reads text only.]"
NOTHING_FOUND = "No tools were found."
MORE_TOOLS = "From here on these tools can be called too:\n"

Item = dict[str, Any]


class ChatMessages:
    """Builds messages from items.  The items of one assistant turn (reasoning, text, calls) form one message.

    `places[i]` is the request field of message `i`, for errors.  Tools of items are added to `table`.  Images
    in results of tools are left out for models that take none: the client's tool put them there, and sends
    them with every later request.
    """

    def __init__(self, table: ToolTable, takes_images: bool) -> None:
        self.messages: list[dict[str, Any]] = []
        self.places: list[str] = []
        self._table = table
        self._takes_images = takes_images
        self._files: FileReader | None = None
        self._turn: dict[str, Any] | None = None  # the assistant message that following items extend

    def add(self, item: Item, place: str) -> None:
        READERS[item["type"]](self, item, place)

    def add_instructions(self, text: str) -> None:
        """Add the request's instructions, the first message."""
        self._append({"role": "system", "content": text}, "instructions")

    def _message(self, item: Item, place: str) -> None:
        if item["role"] == "assistant":
            turn = self._turn_without("content", "tool_calls", place=place)
            turn.update(self._content(item["content"], f"{place}.content"))
        else:
            content = self._content(item["content"], f"{place}.content")
            self._append({"role": item["role"], **content}, place)

    def _reasoning(self, item: Item, place: str) -> None:
        """Reasoning goes on with that before it; an item without text, as one that is encrypted, is none."""
        text = _joined(item.get("content")) or _joined(item.get("summary"))
        if text:
            turn = self._turn_without("content", "tool_calls", place=place)
            turn["reasoning"] = "\n".join(filter(None, (turn.get("reasoning"), text)))

    def _function_call(self, item: Item, place: str) -> None:
        self._call(item, item["name"], item["arguments"], place)

    def _custom_call(self, item: Item, place: str) -> None:
        arguments = json.dumps({TEXT_ARGUMENT: item["input"]}, ensure_ascii=False)
        self._call(item, item["name"], arguments, place)

    def _built_in_call(self, item: Item, place: str) -> None:
        kind = item["type"].removesuffix("_call")
        self._call(item, kind, json.dumps(BUILT_IN[kind].arguments(item), ensure_ascii=False), place)

    def _built_in_output(self, item: Item, place: str) -> None:
        text = BUILT_IN[item["type"].removesuffix("_call_output")].result(item)
        self._append({"role": "tool", "tool_call_id": item["call_id"], "content": text}, place)

    def _search_call(self, item: Item, place: str) -> None:
        self._call(item, SEARCH, json.dumps(item.get("arguments") or {}, ensure_ascii=False), place)

    def _call(self, item: Item, name: str, arguments: str, place: str) -> None:
        namespace = item.get("namespace")
        own = namespace if isinstance(namespace, str) else None
        function = {"name": self._table.shown_name(name, own), "arguments": arguments}
        call = {"id": item["call_id"], "type": "function", "function": function}
        self._turn_without(place=place).setdefault("tool_calls", []).append(call)

    def _output(self, item: Item, place: str) -> None:
        output = item["output"]
        if not self._takes_images and isinstance(output, list):
            output = [_without_image(part) for part in output]
        content = self._content(output, f"{place}.output")
        self._append({"role": "tool", "tool_call_id": item["call_id"], **content}, place)

    def _found_tools(self, item: Item, place: str) -> None:
        text = self._table.add_later(read_tools(item["tools"], f"{place}.tools").tools) or NOTHING_FOUND
        self._append({"role": "tool", "tool_call_id": item.get("call_id") or "", "content": text}, place)

    def _more_tools(self, item: Item, place: str) -> None:
        if text := self._table.add_later(read_tools(item["tools"], f"{place}.tools").tools):
            self._append({"role": "developer", "content": MORE_TOOLS + text}, place)

    def _compaction(self, item: Item, place: str) -> None:
        self._append({"role": "user", "content": opened(item["encrypted_content"])}, place)

    def _compaction_trigger(self, item: Item, place: str) -> None:
        self._append({"role": "user", "content": ASK}, place)

    def _left_out(self, item: Item, place: str) -> None:
        note_left_out("input", item["type"])

    def _content(self, content: str | list[dict[str, Any]], where: str) -> dict[str, Any]:
        """Content with the text part type of chat requests, files as their text; the chat request checks
        other parts.
        """
        if isinstance(content, str):
            return {"content": content}
        return {"content": [self._part(part, f"{where}.{i}") for i, part in enumerate(content)]}

    def _part(self, part: dict[str, Any], where: str) -> dict[str, Any]:
        if part.get("type") == FILE_PART:
            return {"type": "text", "text": self._text_of_file(part, where)}
        return {**part, "type": "text"} if part.get("type") in TEXT_PARTS else part

    def _text_of_file(self, part: dict[str, Any], where: str) -> str:
        from server.media.file_parts import FileReader  # few requests have files

        self._files = self._files or FileReader()
        return self._files.text(part, where)

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


READERS: dict[str, Callable[[ChatMessages, Item, str], None]] = {
    "message": ChatMessages._message,
    "reasoning": ChatMessages._reasoning,
    "function_call": ChatMessages._function_call,
    "function_call_output": ChatMessages._output,
    "custom_tool_call": ChatMessages._custom_call,
    "custom_tool_call_output": ChatMessages._output,
    "tool_search_call": ChatMessages._search_call,
    "tool_search_output": ChatMessages._found_tools,
    "additional_tools": ChatMessages._more_tools,
    "compaction": ChatMessages._compaction,
    "compaction_trigger": ChatMessages._compaction_trigger,
    **{f"{kind}_call": ChatMessages._built_in_call for kind in BUILT_IN},
    **{f"{kind}_call_output": ChatMessages._built_in_output for kind in BUILT_IN},
    **dict.fromkeys(LEFT_OUT, ChatMessages._left_out),
}
"""Type of an item → what adds it."""


def _joined(parts: list[dict[str, Any]] | None) -> str:
    return "\n".join(part["text"] for part in parts or [])


def _without_image(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") != IMAGE_PART:
        return part
    note_left_out("output", IMAGE_PART)
    return {"type": "text", "text": NO_IMAGE}
