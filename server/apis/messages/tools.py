"""Tool declarations and the tool choice, and their conversion to those of a chat request.

Does not depend on messages, templates or HTTP.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, StrictStr

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.field_types import Items
from pipelines.requests.fields.known_fields import Options, check_fields
from pipelines.requests.fields.unknown_fields import note_left_out
from server.apis.messages.client_tools import ON_SCREENS, ClientTool, client_tool
from server.apis.messages.unsupported_fields import IGNORED_IN_TOOLS, REFUSED_IN_TOOLS

TOOL_SEARCH = "tool_search_tool_"
"""How the types of Anthropic's own searches for tools begin."""


class ToolDeclaration(DeferredModel):
    """A tool: one that the client runs, with a schema or of a type whose schema is known, or a server's."""

    model_config = ConfigDict(extra="allow")
    type: StrictStr | None = None
    name: Annotated[StrictStr, Field(min_length=1, max_length=256)] | None = None
    description: StrictStr | None = None
    input_schema: dict[str, Any] | None = None
    input_examples: Items[dict[str, Any]] | None = None
    strict: bool | None = None
    defer_loading: bool | None = None

    @property
    def published(self) -> ClientTool | None:
        """What is known of a tool of Anthropic's that the client runs."""
        return client_tool(self.type or "")

    @property
    def is_hosted(self) -> bool:
        """Whether a server runs it; this one runs none."""
        return self.type not in (None, "custom") and self.published is None

    def check(self, where: str) -> None:
        """Raise RequestError for a tool without a name, and one that runs on a screen."""
        if self.type is not None and self.type.startswith(ON_SCREENS):
            raise RequestError(
                f"`{where}.type`: tools of type {quoted(self.type)} need a model that gives places on a "
                "screen in pixels; models here see no screen: declare tools with an `input_schema`",
                field=f"{where}.type",
            )
        if self.name is None and not self.is_hosted:
            raise RequestError(f"`{where}.name` is required", field=f"{where}.name")

    def chat_tool(self, where: str) -> dict[str, Any]:
        """Raises RequestError, which names the place."""
        known_tool = self.published
        schema = self.input_schema
        if schema is None and known_tool is not None:
            schema = known_tool.input_schema
        if schema is None:
            raise RequestError(f"`{where}.input_schema` is required", field=f"{where}.input_schema")
        known = type(self).model_fields
        check_fields(self.model_extra or {}, known, REFUSED_IN_TOOLS, IGNORED_IN_TOOLS, f"{where}.")
        function: dict[str, Any] = {"name": self.name}
        if known_tool is not None:
            function["description"] = known_tool.description
        for name in ("description", "strict", "input_examples"):
            if getattr(self, name) is not None:
                function[name] = getattr(self, name)
        return {"type": "function", "function": function | {"parameters": schema}}


class ToolChoice(Options):
    """Whether, and which, tools are called."""

    where: ClassVar[str] = "tool_choice"

    type: Literal["auto", "any", "tool", "none"]
    name: StrictStr | None = None
    disable_parallel_tool_use: bool | None = None

    def chat_choice(self, names: list[str]) -> Any:
        """`tool_choice` of a chat request.  Raises RequestError for a tool that is not declared."""
        if self.type != "tool":
            return {"auto": "auto", "any": "required", "none": "none"}[self.type]
        if self.name not in names:
            raise RequestError(
                f"`tool_choice.name`: {quoted(self.name)} is not among `tools`: {quoted(names)}",
                field="tool_choice.name",
            )
        return {"type": "function", "function": {"name": self.name}}


def own_tools(tools: list[ToolDeclaration]) -> list[dict[str, Any]]:
    """The tools that the client runs, as those of a chat request; those that a server would run are left out.

    Raises RequestError where there are only such, and for those that run on a screen.
    """
    for i, tool in enumerate(tools):
        tool.check(f"tools.{i}")
    if all(tool.is_hosted for tool in tools):
        raise RequestError(
            f"`tools.0.type`: tools of type {quoted(tools[0].type)} run on Anthropic's servers, this server "
            "runs none; allowed: custom, bash_*, text_editor_*, memory_*",
            field="tools.0.type",
        )
    for tool in tools:
        if tool.is_hosted:
            note_left_out("tools", str(tool.type))
    return [tool.chat_tool(f"tools.{i}") for i, tool in enumerate(tools) if not tool.is_hosted]


def later_tools(tools: list[ToolDeclaration]) -> frozenset[str]:
    """The names of tools that are shown where a search of the client's finds them.

    Where a server would search, nothing finds them: then all are shown at once.
    """
    if any(tool.type is not None and tool.type.startswith(TOOL_SEARCH) for tool in tools):
        return frozenset()
    return frozenset(tool.name for tool in tools if tool.defer_loading and tool.name is not None)


def chat_tools(tools: list[ToolDeclaration], choice: ToolChoice | None) -> dict[str, Any]:
    """The fields of a chat request that say which tools there are and how they are called."""
    if not tools:
        if choice is not None and choice.type in ("any", "tool"):
            raise RequestError("`tool_choice`: there are no `tools` to choose from", field="tool_choice")
        return {}
    declared = own_tools(tools)
    fields: dict[str, Any] = {"tools": declared}
    if choice is not None:
        fields["tool_choice"] = choice.chat_choice([tool["function"]["name"] for tool in declared])
        fields["parallel_tool_calls"] = not choice.disable_parallel_tool_use
    return fields
