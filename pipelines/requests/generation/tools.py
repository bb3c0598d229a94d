"""Declared tools and the tool choice.  Does not depend on templates, models or HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StrictStr

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.field_types import Items, plain_error


class Function(DeferredModel):
    """A function that the model may call; other keys, such as `strict`, are passed on."""

    model_config = ConfigDict(extra="allow")
    name: Annotated[StrictStr, Field(min_length=1, max_length=256)]
    description: StrictStr | None = None
    parameters: dict[str, Any] | None = None


def _nested(value: Any) -> Any:
    """OpenVINO Model Server also takes the function's keys beside `type`."""
    if isinstance(value, dict) and "function" not in value and "name" in value:
        return {"type": value.get("type"), "function": {k: v for k, v in value.items() if k != "type"}}
    return value


class Tool(DeferredModel):
    """One declared tool."""

    model_config = ConfigDict(extra="allow")
    type: Literal["function"]
    function: Function


def _some(tools: list[Any]) -> list[Any]:
    if not tools:
        raise plain_error(
            "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely."
        )
    return tools


Tools = Annotated[Items[Annotated[Tool, BeforeValidator(_nested)]], AfterValidator(_some)]

USAGE = 'Correct usage: `{"type": "function", "function": {"name": "my_function"}}`'
REQUIRED = "required"
ANY = "any"
"""mistralai's word for it."""
HOSTED = "tools that the server runs itself are not supported; allowed: function"


class ChatToolChoice(NamedTuple):
    """A parsed `tool_choice`: whether tool calls are parsed, and which call is required.

    `forced` is None (no call is required), "required" (any tool), or the name of a tool; `allowed` are the
    names of the tools that the model is shown, None for all.
    """

    parses: bool
    forced: str | None = None
    allowed: list[str] | None = None

    def shows(self, name: str) -> bool:
        """Whether the model is shown the tool of this name."""
        return self.allowed is None or name in self.allowed

    @property
    def named(self) -> bool:
        return self.forced not in (None, REQUIRED)


def read_choice(choice: Any, tools: list[Tool] | None) -> ChatToolChoice:
    """Raises RequestError for a choice that cannot be honoured."""
    if choice is None:
        return ChatToolChoice(parses=bool(tools))
    if choice == "none":
        return ChatToolChoice(parses=False)
    if not tools:
        raise RequestError("When using `tool_choice`, `tools` must be set.", field="tool_choice")
    if choice == "auto":
        return ChatToolChoice(parses=True)
    if choice in (REQUIRED, ANY):
        return ChatToolChoice(parses=True, forced=REQUIRED)
    if isinstance(choice, dict):
        return _from_object(choice, [tool.function.name for tool in tools])
    got = choice if isinstance(choice, str) and len(choice) <= 64 else quoted(choice)
    raise RequestError(
        f"Invalid value for `tool_choice`: {got}! "
        'Only named tools, "none", "auto" or "required" are supported.',
        field="tool_choice",
    )


def _from_object(choice: dict[str, Any], names: list[str]) -> ChatToolChoice:
    if choice.get("type") != "allowed_tools":
        return ChatToolChoice(parses=True, forced=_named(choice, names))
    mode, allowed = read_allowed_tools(choice, names)
    return ChatToolChoice(parses=True, forced=REQUIRED if mode == REQUIRED else None, allowed=allowed)


def read_allowed_tools(choice: dict[str, Any], names: list[str]) -> tuple[str, list[str]]:
    """(mode, names) of an `allowed_tools` choice, in the shape of chat/completions or of Responses.

    Raises RequestError for a tool that is not among `names`.
    """
    where, allowed = "tool_choice", choice
    if isinstance(choice.get("allowed_tools"), dict):
        where, allowed = "tool_choice.allowed_tools", choice["allowed_tools"]
    mode, tools = allowed.get("mode"), allowed.get("tools")
    if mode not in ("auto", REQUIRED):
        raise RequestError(f"`{where}.mode` must be auto or required, got {quoted(mode)}", f"{where}.mode")
    if not isinstance(tools, list) or not tools:
        raise RequestError(f"`{where}.tools` must be a list of tools", f"{where}.tools")
    return mode, [_allowed(tool, f"{where}.tools.{i}", names) for i, tool in enumerate(tools)]


def _allowed(tool: Any, where: str, names: list[str]) -> str:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        raise RequestError(f"`{where}`: {HOSTED}", field=where)
    return read_name(tool, where, names)


def read_name(tool: dict[str, Any], where: str, names: list[str]) -> str:
    """The name of a function, nested or flat.  Raises RequestError where it is not among `names`."""
    nested = tool.get("function")
    name = (nested if isinstance(nested, dict) else tool).get("name")
    if not isinstance(name, str):
        raise RequestError(f"`{where}.name` is required and is a string", field=f"{where}.name")
    if name not in names:
        raise RequestError(f"Tool choice {quoted(name)} not found in 'tools' parameter.", field=where)
    return name


def _named(choice: dict[str, Any], names: list[str]) -> str:
    function = choice if "name" in choice and "function" not in choice else choice.get("function")
    if not isinstance(function, dict):
        got = "None" if function is None else quoted(function)
        raise RequestError(
            f"Invalid value for `function`: `{got}` in `tool_choice`! {USAGE}", field="tool_choice.function"
        )
    name = function.get("name")
    if not isinstance(name, str):
        raise RequestError(
            f"Expected field `name` in `function` in `tool_choice`! {USAGE}",
            field="tool_choice.function.name",
        )
    if name not in names:
        raise RequestError(
            "The tool specified in `tool_choice` does not match any of the specified `tools`: "
            f"{quoted(name)} is not among {quoted(names)}",
            field="tool_choice",
        )
    return name
