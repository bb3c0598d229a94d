"""Declared functions and which of them are called, and their conversion to those of a chat request."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import StrictStr

from pipelines.base.errors import RequestError
from pipelines.requests.fields.field_types import Items
from pipelines.requests.fields.known_fields import check_fields
from pipelines.requests.fields.unknown_fields import note_left_out
from server.apis.gemini.fields import GeminiObject
from server.apis.gemini.schemas import json_schema
from server.apis.gemini.unsupported_fields import (
    IGNORED_IN_CALLING,
    IGNORED_IN_FUNCTIONS,
    IGNORED_IN_TOOL_CONFIG,
)


class FunctionDeclaration(GeminiObject):
    """A function that the client runs; its parameters as one of Gemini's schemas or as a JSON Schema."""

    name: StrictStr
    description: StrictStr | None = None
    parameters: dict[str, Any] | None = None
    parameters_json_schema: dict[str, Any] | None = None

    def chat_tool(self, where: str) -> dict[str, Any]:
        check_fields(self.others, self.names(), ignored=IGNORED_IN_FUNCTIONS, where=f"{where}.")
        schema = self.parameters_json_schema or json_schema(self.parameters) or {"type": "object"}
        function: dict[str, Any] = {"name": self.name, "parameters": schema}
        if self.description is not None:
            function["description"] = self.description
        return {"type": "function", "function": function}


class GeminiTool(GeminiObject):
    """Functions of the client, or, in any other field, a tool of Google's that none here runs."""

    function_declarations: Items[FunctionDeclaration] | None = None

    @property
    def not_run(self) -> list[str]:
        """The names of the fields with tools that are not run here."""
        return [name for name, value in self.others.items() if value is not None]

    def chat_tools(self, where: str) -> list[dict[str, Any]]:
        """The functions as those of a chat request."""
        place = f"{where}.functionDeclarations"
        functions = enumerate(self.function_declarations or [])
        return [function.chat_tool(f"{place}.{i}") for i, function in functions]


class FunctionCallingConfig(GeminiObject):
    """Which functions are called."""

    mode: Literal["AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED"] | None = None
    allowed_function_names: Items[StrictStr] | None = None


class ToolConfig(GeminiObject):
    """How tools are used."""

    function_calling_config: FunctionCallingConfig | None = None

    def checked(self) -> FunctionCallingConfig | None:
        """Which functions are called, of a config whose other fields were looked at."""
        check_fields(self.others, self.names(), ignored=IGNORED_IN_TOOL_CONFIG, where="toolConfig.")
        calling, where = self.function_calling_config, "toolConfig.functionCallingConfig."
        if calling is not None:
            check_fields(calling.others, calling.names(), ignored=IGNORED_IN_CALLING, where=where)
        return calling


def chat_tools(tools: list[GeminiTool], config: ToolConfig | None) -> dict[str, Any]:
    """The fields of a chat request for these tools; those that are no functions of the client are left out.

    Raises RequestError where there are only such.
    """
    declared = [function for i, tool in enumerate(tools) for function in tool.chat_tools(f"tools.{i}")]
    left_out = [name for tool in tools for name in tool.not_run]
    if tools and not declared:
        named = ", ".join(left_out) or "none"
        raise RequestError(
            f"`tools`: this server has no tools of its own ({named}); allowed: functionDeclarations", "tools"
        )
    for name in left_out:
        note_left_out("tools", name)
    calling = config.checked() if config else None
    if not declared:
        return {}
    return {"tools": declared, "tool_choice": _choice(calling or FunctionCallingConfig())}


def _choice(calling: FunctionCallingConfig) -> Any:
    allowed = [
        {"type": "function", "function": {"name": name}} for name in calling.allowed_function_names or []
    ]
    if calling.mode == "NONE":
        return "none"
    must = calling.mode == "ANY"
    if len(allowed) == 1 and must:
        return allowed[0]
    if allowed:
        mode = "required" if must else "auto"
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": allowed}}
    return "required" if must else "auto"
