"""Finds out what a chat template needs of a declared tool, and fills it in where a client left it out.

OpenAI's API requires the name of a function alone; many templates read its description, its parameters or the
description of each property without asking whether there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Tool = dict[str, Any]
Fill = Callable[[Tool], Tool]
"""A function as the client declared it → the same with what was missing."""

NAME = "weather"
CITY = {"type": "string", "description": "A city"}
NULL = "null"


def conform_tools(tools: list[Tool] | None, fills: tuple[str, ...]) -> list[Tool] | None:
    """Copies of the tools with these `FILLS`; keys of a function that are null are left out."""
    return tools and [_conformed(tool, fills) for tool in tools]


def find_fills(render: Callable[[list[Tool]], str]) -> tuple[str, ...]:
    """The names in `FILLS` of what a template needs; `render` gives "" where it refuses the tools.

    A template that does not show a whole tool needs nothing.
    """
    whole = _tool({"description": "The weather", "parameters": _parameters(CITY)})

    def shown(functions: list[Tool], fills: tuple[str, ...]) -> int:
        prompts = (render([_conformed(_tool(function), fills)]) for function in functions)
        return sum(NAME in prompt for prompt in prompts)

    needed: tuple[str, ...] = ()
    if NAME in render([whole]):
        for name, functions in TRIALS.items():
            if shown(functions, needed) < shown(functions, (*needed, name)):
                needed = (*needed, name)
    return needed


def _conformed(tool: Tool, fills: tuple[str, ...]) -> Tool:
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict):
        return tool
    function = {key: value for key, value in function.items() if value is not None}
    for name in fills:
        function = FILLS[name](function)
    return {**tool, "function": function}


def _described(function: Tool) -> Tool:
    missing = {} if "description" in function else {"description": ""}
    return {"name": function["name"], **missing, **function}


def _with_parameters(function: Tool) -> Tool:
    return {**function, "parameters": {"type": "object", "properties": {}, **function.get("parameters", {})}}


def _with_plain_properties(function: Tool) -> Tool:
    """Each property has a description, and one type where it has several."""
    parameters = function.get("parameters", {})
    properties = {name: _plain(given) for name, given in parameters.get("properties", {}).items()}
    return {**function, "parameters": {**parameters, "properties": properties}}


def _plain(given: Any) -> Tool:
    schema = given if isinstance(given, dict) else {}
    types = schema.get("type")
    if isinstance(types, list):
        schema = {**schema, "type": next((each for each in types if each != NULL), NULL)}
    return schema if "description" in schema else {**schema, "description": ""}


def _tool(function: Tool) -> Tool:
    return {"type": "function", "function": {"name": NAME, **function}}


def _parameters(city: Any) -> Tool:
    return {"type": "object", "properties": {"city": city}, "required": ["city"]}


FILLS: dict[str, Fill] = {
    "description": _described,
    "parameters": _with_parameters,
    "properties": _with_plain_properties,
}
TRIALS: dict[str, list[Tool]] = {
    "description": [{"parameters": _parameters(CITY)}],
    "parameters": [{"description": "The weather"}, {"description": "", "parameters": {"type": "object"}}],
    "properties": [
        {"description": "The weather", "parameters": _parameters(city)}
        for city in ({"type": "string"}, {**CITY, "type": ["string", NULL]}, True)
    ],
}
"""Fill → functions that a template which needs it refuses."""
