"""Declared functions and which of them are called, and their conversion to those of a chat request."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import StrictStr

from pipelines.base.errors import RequestError
from pipelines.requests.fields.field_types import Items
from server.apis.gemini.fields import GeminiObject
from server.apis.gemini.schemas import json_schema


class FunctionDeclaration(GeminiObject):
    """A function that the client runs; its parameters as one of Gemini's schemas or as a JSON Schema."""

    name: StrictStr
    description: StrictStr | None = None
    parameters: dict[str, Any] | None = None
    parameters_json_schema: dict[str, Any] | None = None

    def chat_tool(self) -> dict[str, Any]:
        schema = self.parameters_json_schema or json_schema(self.parameters) or {"type": "object"}
        function: dict[str, Any] = {"name": self.name, "parameters": schema}
        if self.description is not None:
            function["description"] = self.description
        return {"type": "function", "function": function}


class GeminiTool(GeminiObject):
    """Functions of the client, or, in any other field, a tool that Google's servers run."""

    function_declarations: Items[FunctionDeclaration] | None = None


class FunctionCallingConfig(GeminiObject):
    """Which functions are called."""

    mode: Literal["AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED"] | None = None
    allowed_function_names: Items[StrictStr] | None = None


class ToolConfig(GeminiObject):
    """How tools are used."""

    function_calling_config: FunctionCallingConfig | None = None


def chat_tools(tools: list[GeminiTool], config: ToolConfig | None) -> dict[str, Any]:
    """The fields of a chat request for these tools; those that a server would run are left out.

    Raises RequestError where there are only such.
    """
    declared = [function.chat_tool() for tool in tools for function in tool.function_declarations or []]
    if tools and not declared:
        named = ", ".join(name for tool in tools for name in tool.model_extra or {}) or "none"
        raise RequestError(
            f"`tools`: this server runs no tools itself ({named}); allowed: functionDeclarations", "tools"
        )
    if not declared:
        return {}
    calling = config.function_calling_config if config else None
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
