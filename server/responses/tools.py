"""Converts tools and `tool_choice` between the Responses API's flat format and that of chat/completions."""

from __future__ import annotations

from typing import Any

from pipelines.errors import RequestError
from server.generation.requests.known_fields import check_fields
from server.http.error_text import quoted
from server.responses.unsupported_fields import HOSTED, IGNORED_TOOL, REFUSED_TOOL

FUNCTION_KEYS = ("name", "description", "parameters", "strict")
NULL_KEYS = ("allowed_callers", "async", "defer_loading", "output_schema")
"""Keys of a tool that a response repeats as null."""


def functions(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The functions that the tools declare, flat or under "function".  Raises RequestError."""
    return [_function(tool, f"tools.{i}") for i, tool in enumerate(tools)]


def _function(tool: dict[str, Any], where: str) -> dict[str, Any]:
    if tool.get("type") != "function":
        raise RequestError(
            f"`{where}.type`: {HOSTED} (got {quoted(tool.get('type'))})", field=f"{where}.type"
        )
    nested = tool.get("function")
    found = nested if isinstance(nested, dict) else tool
    others = {name: value for name, value in found.items() if name not in (*FUNCTION_KEYS, "type")}
    check_fields(others, FUNCTION_KEYS, REFUSED_TOOL, IGNORED_TOOL, f"{where}.")
    if not isinstance(found.get("name"), str):
        raise RequestError(f"`{where}.name` is required and is a string", field=f"{where}.name")
    return {name: found[name] for name in FUNCTION_KEYS if found.get(name) is not None}


def echo_tool(function: dict[str, Any]) -> dict[str, Any]:
    """A tool as the response repeats it."""
    return {"type": "function"} | {name: function.get(name) for name in (*FUNCTION_KEYS, *NULL_KEYS)}


def select_tools(
    choice: Any, declared: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], str | dict[str, Any] | None]:
    """(functions that the model may call, `tool_choice` of the chat request).

    Raises RequestError for a choice that the declared functions do not allow.
    """
    if isinstance(choice, dict):
        return _named_choice(choice, declared)
    if choice not in (None, "none", "auto", "required"):
        raise RequestError(
            f"Invalid value for `tool_choice`: {quoted(choice)}! "
            'Only named tools, allowed tools, "none", "auto" or "required" are supported.',
            field="tool_choice",
        )
    if not declared and choice == "required":
        raise _missing_tools(choice)
    return declared, (choice if declared else None)


def _named_choice(
    choice: dict[str, Any], declared: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], str | dict[str, Any]]:
    kind = choice.get("type")
    if kind == "function":
        name = _name(choice, "tool_choice")
        _find(name, declared, "tool_choice")
        return declared, {"type": "function", "function": {"name": name}}
    if kind != "allowed_tools":
        raise RequestError(f"`tool_choice.type`: {HOSTED}, allowed_tools (got {quoted(kind)})", "tool_choice")
    mode = choice.get("mode")
    if mode not in ("auto", "required"):
        raise RequestError(
            f"`tool_choice.mode` must be auto or required, got {quoted(mode)}", "tool_choice.mode"
        )
    return _allowed_functions(choice.get("tools"), declared), mode


def _allowed_functions(tools: Any, declared: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The declared functions that a list names; the prompt contains no others."""
    if not isinstance(tools, list) or not tools:
        raise RequestError("`tool_choice.tools` must be a list of tools", field="tool_choice.tools")
    names = []
    for i, tool in enumerate(tools):
        where = f"tool_choice.tools.{i}"
        if not isinstance(tool, dict) or tool.get("type") != "function":
            raise RequestError(f"`{where}`: {HOSTED}", field=where)
        names.append(_find(_name(tool, where), declared, where))
    return [function for function in declared if function["name"] in names]


def _name(tool: dict[str, Any], where: str) -> str:
    nested = tool.get("function")
    name = (nested if isinstance(nested, dict) else tool).get("name")
    if not isinstance(name, str):
        raise RequestError(f"`{where}.name` is required and is a string", field=f"{where}.name")
    return name


def _find(name: str, declared: list[dict[str, Any]], where: str) -> str:
    if not any(function["name"] == name for function in declared):
        raise RequestError(f"Tool choice {quoted(name)} not found in 'tools' parameter.", field=where)
    return name


def _missing_tools(choice: str) -> RequestError:
    return RequestError(
        f"Tool choice '{choice}' must be specified with 'tools' parameter.", field="tool_choice"
    )
