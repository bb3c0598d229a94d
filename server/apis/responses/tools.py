"""Reads the tools of a Responses request: functions, custom tools, tool search, namespaces of these, and the
tools of OpenAI's that the client runs.

Each becomes a function of the chat request.  Tools that a server runs itself are left out beside others, and
the reply says so: agents declare them in every request, and an error would end every session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.known_fields import check_fields
from pipelines.requests.fields.unknown_fields import note_left_out
from pipelines.requests.generation.tools import HOSTED
from pipelines.values.tasks import TEXT_ARGUMENT
from server.apis.responses.built_in_tools import BUILT_IN
from server.apis.responses.unsupported_fields import IGNORED_TOOL, REFUSED_TOOL

FUNCTION, CUSTOM, SEARCH, NAMESPACE = "function", "custom", "tool_search", "namespace"
NAMELESS = (SEARCH, *BUILT_IN)
"""Kinds of tools whose name is their type."""
COMPUTERS = ("computer", "computer_use", "computer_use_preview")
FUNCTION_KEYS = ("name", "description", "parameters", "strict")
NULL_KEYS = ("allowed_callers", "async", "defer_loading", "output_schema")
"""Keys of a tool that a response repeats as null."""

Tool = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """A tool that the client runs.

    `function` is how the model is shown it, without a name; `text_format` holds the text of a custom tool's
    call.  A `deferred` one is shown where an item of the input has its schema.
    """

    kind: str
    name: str
    namespace: str | None = None
    function: Tool = field(default_factory=dict)
    text_format: dict[str, Any] | None = None
    deferred: bool = False


@dataclass(frozen=True, slots=True)
class Declarations:
    """The tools of a list, and each of its entries as a response repeats it."""

    tools: list[DeclaredTool]
    echoes: list[Tool]


def read_tools(tools: list[Tool], where: str) -> Declarations:
    """Raises RequestError, naming a place below `where`."""
    read, echoes = [], []
    for i, tool in enumerate(tools):
        place, kind = f"{where}.{i}", tool.get("type")
        if kind in COMPUTERS:
            raise RequestError(
                f"`{place}.type`: `{kind}` is not supported: models here are not trained to act on pictures "
                "of a screen; declare what they may do as functions",
                field=f"{place}.type",
            )
        if not isinstance(kind, str) or kind not in READERS:
            _leave_out(kind, place)
            continue
        declared = READERS[kind](tool, place)
        read += declared
        echoes.append(_echo(declared[0]) if kind == FUNCTION else tool)
    return Declarations(read, echoes)


def check_any(declared: list[Tool], read: Declarations) -> None:
    """Raise RequestError where a request declares nothing but tools that servers run themselves."""
    if declared and not read.tools:
        kind = declared[0].get("type")
        raise RequestError(f"`tools.0.type`: {HOSTED} (got {quoted(kind)})", field="tools.0.type")


def _leave_out(kind: Any, place: str) -> None:
    if not isinstance(kind, str):
        raise RequestError(f"`{place}.type`: {HOSTED} (got {quoted(kind)})", field=f"{place}.type")
    note_left_out("tools", kind)


def _function(tool: Tool, where: str) -> list[DeclaredTool]:
    nested = tool.get("function")
    function = nested if isinstance(nested, dict) else tool
    name = _checked_name(function, FUNCTION_KEYS, where)
    shown = {key: function[key] for key in FUNCTION_KEYS[1:] if function.get(key) is not None}
    deferred = function.get("defer_loading") is True
    return [DeclaredTool(FUNCTION, name, function=shown, deferred=deferred)]


def _custom(tool: Tool, where: str) -> list[DeclaredTool]:
    name = _checked_name(tool, ("name", "description", "format"), where)
    from server.apis.responses.text_formats import read_format  # brings the rules of grammars

    text_format, says = read_format(tool.get("format"), name, f"{where}.format")
    argument = {"type": "string", "description": f"The text of the call.{says}"}
    parameters = {
        "type": "object",
        "properties": {TEXT_ARGUMENT: argument},
        "required": [TEXT_ARGUMENT],
        "additionalProperties": False,
    }
    described = {"description": tool["description"]} if isinstance(tool.get("description"), str) else {}
    shown = {**described, "parameters": parameters}
    deferred = tool.get("defer_loading") is True
    return [DeclaredTool(CUSTOM, name, function=shown, text_format=text_format, deferred=deferred)]


def _search(tool: Tool, where: str) -> list[DeclaredTool]:
    """A search of the client's; one that a server runs is left out."""
    if tool.get("execution") != "client":
        note_left_out("tools", SEARCH)
        return []
    shown = {key: tool[key] for key in ("description", "parameters") if tool.get(key) is not None}
    return [DeclaredTool(SEARCH, SEARCH, function=shown)]


def _built_in(tool: Tool, where: str) -> list[DeclaredTool]:
    """A tool that the client runs; a shell in a container of the service's is left out."""
    kind, environment = tool["type"], tool.get("environment")
    others = {name: value for name, value in tool.items() if name not in ("type", "environment")}
    check_fields(others, ("type", "environment"), REFUSED_TOOL, IGNORED_TOOL, f"{where}.")
    if isinstance(environment, dict) and environment.get("type", "local") != "local":
        note_left_out("tools", f"{kind}.{environment['type']}")
        return []
    return [DeclaredTool(kind, kind, function=BUILT_IN[kind].function)]


def _namespace(tool: Tool, where: str) -> list[DeclaredTool]:
    """The tools of a namespace; its description is in front of that of the first one."""
    name, inner = tool.get("name"), tool.get("tools")
    if not isinstance(name, str) or not isinstance(inner, list):
        raise RequestError(f"`{where}` must have a name and tools", field=where)
    if not all(isinstance(entry, dict) and entry.get("type") in (FUNCTION, CUSTOM) for entry in inner):
        raise RequestError(f"`{where}.tools` may hold functions and custom tools", field=f"{where}.tools")
    declared = read_tools(inner, f"{where}.tools").tools
    tools = [replace(function, namespace=name) for function in declared]
    about = tool.get("description")
    if tools and isinstance(about, str) and about:
        _check_description(inner[0], f"{where}.tools.0")
        texts = [about, tools[0].function.get("description")]
        first = {**tools[0].function, "description": "\n\n".join(text for text in texts if text)}
        tools[0] = replace(tools[0], function=first)
    return tools


def _check_description(tool: Tool, where: str) -> None:
    nested = tool.get("function")
    about = (nested if isinstance(nested, dict) else tool).get("description")
    if not isinstance(about, str | None):
        field = f"{where}.description"
        raise RequestError(f"`{field}` must be a string, got {quoted(about)}", field=field)


def _checked_name(tool: Tool, known: tuple[str, ...], where: str) -> str:
    others = {name: value for name, value in tool.items() if name not in (*known, "type", "defer_loading")}
    check_fields(others, known, REFUSED_TOOL, IGNORED_TOOL, f"{where}.")
    name = tool.get("name")
    if not isinstance(name, str):
        raise RequestError(f"`{where}.name` is required and is a string", field=f"{where}.name")
    return name


def _echo(tool: DeclaredTool) -> Tool:
    own = {"name": tool.name, **tool.function}
    return {"type": FUNCTION} | {name: own.get(name) for name in (*FUNCTION_KEYS, *NULL_KEYS)}


READERS: dict[Any, Callable[[Tool, str], list[DeclaredTool]]] = {
    FUNCTION: _function,
    CUSTOM: _custom,
    SEARCH: _search,
    NAMESPACE: _namespace,
    **dict.fromkeys(BUILT_IN, _built_in),
}
"""Type of a tool → the function that reads it."""
