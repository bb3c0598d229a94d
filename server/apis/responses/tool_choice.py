"""Converts `tool_choice` between the Responses API's flat format and that of chat/completions."""

from __future__ import annotations

from typing import Any

from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.generation.tools import ANY, HOSTED, REQUIRED, read_allowed_tools, read_name
from server.apis.responses.tool_table import ToolTable
from server.apis.responses.tools import CUSTOM, FUNCTION, NAMELESS


def select_tools(choice: Any, table: ToolTable) -> tuple[list[str], str | dict[str, Any] | None]:
    """(names of the tools that the model may call, `tool_choice` of the chat request).

    Raises RequestError for a choice that the declared tools do not allow.
    """
    names = table.names
    if isinstance(choice, dict):
        return _named_choice(choice, table)
    if choice not in (None, "none", "auto", REQUIRED, ANY):
        raise RequestError(
            f"Invalid value for `tool_choice`: {quoted(choice)}! "
            'Only named tools, allowed tools, "none", "auto" or "required" are supported.',
            field="tool_choice",
        )
    if not names and choice in (REQUIRED, ANY):
        raise RequestError(
            f"Tool choice '{choice}' must be specified with 'tools' parameter.", field="tool_choice"
        )
    return names, (choice if names else None)


def _named_choice(choice: dict[str, Any], table: ToolTable) -> tuple[list[str], str | dict[str, Any]]:
    kind, names = choice.get("type"), table.names
    if kind in (FUNCTION, CUSTOM, *NAMELESS):
        name = table.named(choice) or read_name(_named(choice), "tool_choice", names)
        return names, {"type": FUNCTION, "function": {"name": name}}
    if kind != "allowed_tools":
        raise RequestError(f"`tool_choice.type`: {HOSTED}, allowed_tools (got {quoted(kind)})", "tool_choice")
    inner = choice.get("allowed_tools")
    allowed = inner if isinstance(inner, dict) else choice
    if isinstance(tools := allowed.get("tools"), list):
        allowed = {**allowed, "tools": [_shown(tool, table) for tool in tools]}
    mode, chosen = read_allowed_tools(
        {"allowed_tools": allowed} if isinstance(inner, dict) else allowed, names
    )
    return [name for name in names if name in chosen], mode


def _shown(tool: Any, table: ToolTable) -> Any:
    """An entry of allowed tools by the name that the model is shown; any other as it is."""
    if not isinstance(tool, dict):
        return tool
    name = table.named(tool)
    return _named(tool) if name is None else {"type": FUNCTION, "name": name}


def _named(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool that its type names as one with a name; any other as it is."""
    return {"type": FUNCTION, "name": tool["type"]} if tool.get("type") in NAMELESS else tool


def echo_choice(choice: Any, chosen: str | dict[str, Any] | None, table: ToolTable) -> str | dict[str, Any]:
    """The choice as a response repeats it."""
    if not table.names:
        return "none"
    if isinstance(chosen, dict):
        tool = table.get(chosen["function"]["name"])
        return {"type": tool.kind} if tool.kind in NAMELESS else {"type": tool.kind, "name": tool.name}
    return choice or "auto"
