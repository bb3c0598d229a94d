"""Chat messages and tools: what a client may send, and the plain dicts that a chat template reads.

Knows nothing of templates, models or HTTP.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictStr

from pipelines.errors import RequestError
from server.generation.field_types import fault, said
from server.generation.fields import IGNORED_IN_MESSAGES, IGNORED_IN_PARTS, shown, unknown_field

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]

TEXT_PARTS = ("text", "input_text", "output_text")
MEDIA_PARTS = (
    "image_url",
    "input_image",
    "image_embeds",
    "image",
    "audio_url",
    "input_audio",
    "video_url",
    "video",
    "file",
    "input_file",
)


class Part(BaseModel):
    """One part of a message's content.  Only text is served; what is not text is refused by name."""

    model_config = ConfigDict(extra="allow")
    type: StrictStr = "text"
    text: StrictStr | None = None
    refusal: StrictStr | None = None

    def content(self, where: str) -> str:
        """The text of the part.  Raises RequestError naming `where`."""
        if self.type in MEDIA_PARTS:
            raise RequestError(
                f"`{where}`: this model takes text only, so `{self.type}` parts are refused", field=where
            )
        if self.type not in (*TEXT_PARTS, "refusal"):
            raise RequestError(
                f"`{where}.type`: unknown content part {shown(self.type)}; allowed: "
                f"{', '.join(TEXT_PARTS)}, refusal",
                field=f"{where}.type",
            )
        _check_extra(self, IGNORED_IN_PARTS, f"{where}.")
        name = "refusal" if self.type == "refusal" else "text"
        text = getattr(self, name)
        if text is None:
            raise RequestError(
                f"`{where}.{name}` is required in a part of type `{self.type}`", field=f"{where}.{name}"
            )
        return str(text)


def _content(value: Any) -> Any:
    if value is not None and not isinstance(value, str | list):
        raise fault(f"must be a string or a list of content parts, got {shown(value)}")
    return [{"type": "text", "text": value}] if isinstance(value, str) else value


def _arguments(value: Any) -> Any:
    if value is not None and not isinstance(value, str | dict):
        raise fault(f"must be JSON text or an object, got {shown(value)}")
    return value


class FunctionCall(BaseModel):
    """The function of an earlier tool call; `arguments` is JSON text, or the object itself."""

    model_config = ConfigDict(extra="allow")
    name: StrictStr
    arguments: Annotated[Any, AfterValidator(_arguments)] = None


class EarlierCall(BaseModel):
    """A tool call of an earlier assistant message."""

    model_config = ConfigDict(extra="allow")
    id: StrictStr | None = None
    type: Literal["function"] = "function"
    function: FunctionCall

    def plain(self) -> dict[str, Any]:
        """As templates read it: arguments are an object whenever they are JSON."""
        arguments: Any = self.function.arguments
        if not isinstance(arguments, dict):
            arguments = _object(arguments or "{}")
        call = {"type": "function", "function": {"name": self.function.name, "arguments": arguments}}
        return call | ({"id": self.id} if self.id is not None else {})


def _object(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


class Message(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(extra="allow")
    role: Role
    content: Annotated[list[Part] | None, BeforeValidator(_content)] = None
    name: StrictStr | None = None
    refusal: StrictStr | None = None
    reasoning: StrictStr | None = None
    reasoning_content: StrictStr | None = None
    tool_calls: list[EarlierCall] | None = None
    tool_call_id: StrictStr | None = None

    def plain(self, where: str) -> dict[str, Any]:
        """As templates read it: `content` is text, `developer` is `system`, reasoning under both names.

        Raises RequestError naming the place when content is missing or is not text.
        """
        _check_extra(self, IGNORED_IN_MESSAGES, f"{where}.")
        if self.content is None and self.role != "assistant":
            raise RequestError(
                f"`{where}.content` is required in a message of role `{self.role}`", field=f"{where}.content"
            )
        message: dict[str, Any] = {
            "role": "system" if self.role == "developer" else self.role,
            "content": self._text(where),
        }
        reasoning = self.reasoning if self.reasoning is not None else self.reasoning_content
        if reasoning is not None:
            message |= {"reasoning": reasoning, "reasoning_content": reasoning}
        if self.tool_calls:
            message["tool_calls"] = [call.plain() for call in self.tool_calls]
        for key in ("name", "tool_call_id"):
            if getattr(self, key) is not None:
                message[key] = getattr(self, key)
        return message

    def _text(self, where: str) -> str:
        """Text parts joined with a newline, as vLLM joins them for templates that read text."""
        parts = [part.content(f"{where}.content.{i}") for i, part in enumerate(self.content or [])]
        return "\n".join(parts) if parts else self.refusal or ""


def _check_extra(model: BaseModel, ignored: dict[str, str], where: str) -> None:
    """Refuse fields that nobody reads, unless they are null or ignored for a reason."""
    for name, value in (model.model_extra or {}).items():
        if value is not None and name not in ignored:
            raise unknown_field(name, type(model).model_fields, where)


class Function(BaseModel):
    """A function that the model may call; other keys reach the template as they are.

    `strict` is among those: arguments reach the client as the model wrote them.
    """

    model_config = ConfigDict(extra="allow")
    name: Annotated[StrictStr, Field(min_length=1, max_length=256)]
    description: StrictStr | None = None
    parameters: dict[str, Any] | None = None


def _nested(value: Any) -> Any:
    if isinstance(value, dict) and "function" not in value and "name" in value:
        raise fault('a function stands under "function": {"type": "function", "function": {"name": ...}}')
    return value


class Tool(BaseModel):
    """One declared tool."""

    model_config = ConfigDict(extra="allow")
    type: Literal["function"]
    function: Function


def _some(tools: list[Any]) -> list[Any]:
    if not tools:
        raise said(
            "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely."
        )
    return tools


Tools = Annotated[list[Annotated[Tool, BeforeValidator(_nested)]], AfterValidator(_some)]

TOOL_CHOICE_USAGE = 'Correct usage: `{"type": "function", "function": {"name": "my_function"}}`'


def parses_calls(choice: Any, tools: list[Tool] | None) -> bool:
    """Whether the reply is searched for calls.  Raises RequestError for a choice that cannot be honoured."""
    if choice is None:
        return bool(tools)
    if not tools:
        raise RequestError("When using `tool_choice`, `tools` must be set.", field="tool_choice")
    if choice in ("none", "auto"):
        return bool(choice == "auto")
    if choice == "required" or isinstance(choice, dict):
        _check_named(choice, tools)
        raise RequestError(
            "`tool_choice`: required and named tools are not supported yet by this model's graph: it has no "
            "grammar node; allowed: none, auto",
            field="tool_choice",
        )
    raise RequestError(
        f"Invalid value for `tool_choice`: {shown(choice)}! "
        'Only named tools, "none", "auto" or "required" are supported.',
        field="tool_choice",
    )


def _check_named(choice: Any, tools: list[Tool]) -> None:
    if not isinstance(choice, dict):
        return
    function = choice.get("function")
    if not isinstance(function, dict):
        raise RequestError(
            f"Invalid value for `function`: `{shown(function)}` in `tool_choice`! {TOOL_CHOICE_USAGE}",
            field="tool_choice.function",
        )
    if not isinstance(function.get("name"), str):
        raise RequestError(
            f"Expected field `name` in `function` in `tool_choice`! {TOOL_CHOICE_USAGE}",
            field="tool_choice.function.name",
        )
    names = [tool.function.name for tool in tools]
    if function["name"] not in names:
        raise RequestError(
            f"The tool {shown(function['name'])} in `tool_choice` is not among `tools`: {shown(names)}",
            field="tool_choice.function.name",
        )
