"""Contents and their parts, and their conversion to chat messages.  Does not depend on tools or HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import StrictStr
from pydantic.alias_generators import to_camel

from pipelines.base.errors import RequestError
from pipelines.requests.fields.field_types import Items
from pipelines.requests.fields.unknown_fields import note_left_out
from server.apis.gemini.fields import GeminiObject
from server.apis.gemini.unsupported_fields import LEFT_OUT_PARTS

Message = dict[str, Any]
NOT_IN = {
    "model": ("inline_data", "function_response"),
    "system": ("inline_data", "function_call", "function_response"),
    **dict.fromkeys(("user", "function"), ("function_call",)),
}
"""Role of a turn → the fields of parts that are not read in it."""
OUTPUTS = ("output", "result", "error")
"""The keys under which clients give what a function returned as text."""


class InlineData(GeminiObject):
    """A file in base64."""

    mime_type: StrictStr
    data: StrictStr

    @property
    def url(self) -> str:
        standard = self.data.replace("-", "+").replace("_", "/")
        return f"data:{self.mime_type};base64,{standard}"


class GeminiCall(GeminiObject):
    """A call that the model made."""

    id: StrictStr | None = None
    name: StrictStr
    args: dict[str, Any] | None = None


class FunctionResponse(GeminiObject):
    """What a call returned."""

    id: StrictStr | None = None
    name: StrictStr
    response: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """The response as text: the only output, or JSON."""
        response = self.response or {}
        only = next(iter(response), None) if len(response) == 1 else None
        if only in OUTPUTS and isinstance(response[only], str):
            return str(response[only])
        return json.dumps(response, ensure_ascii=False)


class GeminiPart(GeminiObject):
    """One part of a content: text, a thought, an image, a call or what it returned."""

    text: StrictStr | None = None
    thought: bool | None = None
    inline_data: InlineData | None = None
    function_call: GeminiCall | None = None
    function_response: FunctionResponse | None = None

    def check(self, where: str, role: str) -> None:
        """Raise RequestError, with its place, for a part of which nothing is read in a turn of `role`."""
        read = (self.text, self.inline_data, self.function_call, self.function_response)
        left_out = [name for name in LEFT_OUT_PARTS if self.others.get(name) is not None]
        if role == "model" and left_out:
            for name in left_out:
                note_left_out("contents", name)
            return
        if not any(value is not None for value in read):
            names = ", ".join(self.model_extra or {}) or "nothing"
            raise RequestError(
                f"`{where}` has {names}; allowed: text, inlineData, functionCall, functionResponse", where
            )
        values = {name: getattr(self, name) for name in NOT_IN[role]}
        if wrong := [to_camel(name) for name, value in values.items() if value is not None]:
            field = f"{where}.{wrong[0]}"
            raise RequestError(f"`{field}` has no place in a turn of the role `{role}`", field)


class Content(GeminiObject):
    """One turn of a conversation."""

    role: Literal["user", "model", "function", "system"] | None = None
    parts: Items[GeminiPart] = []

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if part.text and not part.thought)


class CallNames:
    """The ids of calls: the client's, else by their order; a response without one is of the call it fits."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, str]] = []
        self._count = 0

    def called(self, call: GeminiCall) -> str:
        self._count += 1
        name = call.id or f"call_{self._count}"
        self._waiting.append((name, call.name))
        return name

    def returned(self, response: FunctionResponse) -> str:
        """The id of the call that a response belongs to: by its id, else by its name, in their order."""
        fits = [each for each in self._waiting if response.id in (None, each[0]) and each[1] == response.name]
        if not fits:
            return response.id or response.name
        self._waiting.remove(fits[0])
        return fits[0][0]


def chat_messages(contents: list[Content], system: Content | None) -> list[Message]:
    """The conversation as chat messages.  Raises RequestError."""
    for i, content in enumerate(contents):
        for k, part in enumerate(content.parts):
            part.check(f"contents.{i}.parts.{k}", content.role or "user")
    for k, part in enumerate(system.parts if system else []):
        part.check(f"systemInstruction.parts.{k}", "system")
    names = CallNames()
    messages = [{"role": "system", "content": system.text}] if system and system.text else []
    for content in contents:
        messages += [_model(content, names)] if content.role == "model" else _user(content, names)
    return messages


def _model(content: Content, names: CallNames) -> Message:
    message: Message = {"role": "assistant", "content": content.text}
    thoughts = [part.text for part in content.parts if part.text and part.thought]
    if thoughts:
        message["reasoning"] = "\n".join(thoughts)
    calls = [part.function_call for part in content.parts if part.function_call is not None]
    if calls:
        message["tool_calls"] = [
            {
                "id": names.called(call),
                "type": "function",
                "function": {"name": call.name, "arguments": call.args or {}},
            }
            for call in calls
        ]
    return message


def _user(content: Content, names: CallNames) -> Iterator[Message]:
    """The responses of a turn, and what it shows and says."""
    shown: list[dict[str, Any]] = []
    for part in content.parts:
        if part.function_response is not None:
            response = part.function_response
            name = names.returned(response)
            yield {"role": "tool", "tool_call_id": name, "name": response.name, "content": response.text}
        elif part.inline_data is not None:
            shown.append({"type": "image_url", "image_url": {"url": part.inline_data.url}})
        elif part.text:
            shown.append({"type": "text", "text": part.text})
    if shown:
        is_text = len(shown) == 1 and shown[0]["type"] == "text"
        yield {"role": content.role or "user", "content": shown[0]["text"] if is_text else shown}
