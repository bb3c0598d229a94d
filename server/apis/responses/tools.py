"""Converts tools and `tool_choice` between the Responses API's flat format and that of chat/completions."""

from __future__ import annotations

from typing import Any

from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.known_fields import check_fields
from pipelines.requests.generation.tools import ANY, HOSTED, REQUIRED, read_allowed_tools, read_name
from server.apis.responses.unsupported_fields import IGNORED_TOOL, REFUSED_TOOL

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
    function = nested if isinstance(nested, dict) else tool
    others = {name: value for name, value in function.items() if name not in (*FUNCTION_KEYS, "type")}
    check_fields(others, FUNCTION_KEYS, REFUSED_TOOL, IGNORED_TOOL, f"{where}.")
    if not isinstance(function.get("name"), str):
        raise RequestError(f"`{where}.name` is required and is a string", field=f"{where}.name")
    return {name: function[name] for name in FUNCTION_KEYS if function.get(name) is not None}


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
    if choice not in (None, "none", "auto", REQUIRED, ANY):
        raise RequestError(
            f"Invalid value for `tool_choice`: {quoted(choice)}! "
            'Only named tools, allowed tools, "none", "auto" or "required" are supported.',
            field="tool_choice",
        )
    if not declared and choice in (REQUIRED, ANY):
        raise _missing_tools(choice)
    return declared, (choice if declared else None)


def _named_choice(
    choice: dict[str, Any], declared: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], str | dict[str, Any]]:
    kind, names = choice.get("type"), [function["name"] for function in declared]
    if kind == "function":
        name = read_name(choice, "tool_choice", names)
        return declared, {"type": "function", "function": {"name": name}}
    if kind != "allowed_tools":
        raise RequestError(f"`tool_choice.type`: {HOSTED}, allowed_tools (got {quoted(kind)})", "tool_choice")
    mode, allowed = read_allowed_tools(choice, names)
    return [function for function in declared if function["name"] in allowed], mode


def _missing_tools(choice: str) -> RequestError:
    return RequestError(
        f"Tool choice '{choice}' must be specified with 'tools' parameter.", field="tool_choice"
    )
