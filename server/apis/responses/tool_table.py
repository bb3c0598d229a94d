"""The tools that a model may call, by the names that it is shown."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from server.apis.responses.tools import CUSTOM, FUNCTION, NAMELESS, SEARCH, DeclaredTool

BETWEEN = "__"
"""The sign between a namespace and a name, where a model is shown both as one."""


class ToolTable:
    """The declared tools in their order, those of items behind those of the request."""

    def __init__(self, tools: Iterable[DeclaredTool] = ()) -> None:
        self._tools: dict[str, DeclaredTool] = {}
        self._names: dict[tuple[str | None, str], str] = {}
        self.later: set[str] = set()
        """Names of the tools whose schemas are in the text of messages."""
        tools = list(tools)
        searches = any(tool.kind == SEARCH for tool in tools)
        self._add(tool for tool in tools if not (tool.deferred and searches))

    def add_later(self, tools: Iterable[DeclaredTool]) -> str:
        """Add the tools of an item; returns their schemas as a prompt shows them, one a line."""
        tools = list(tools)
        self.later |= self._add(tools)
        return "\n".join(json.dumps(self._chat_tool(tool), ensure_ascii=False) for tool in tools)

    def _add(self, tools: Iterable[DeclaredTool]) -> set[str]:
        """Returns the names of those that are new."""
        new = set()
        for tool in tools:
            if (tool.namespace, tool.name) in self._names:
                continue
            name = self.shown_name(tool.name, tool.namespace)
            while name in self._tools:
                name += "_"
            self._tools[name] = tool
            self._names[tool.namespace, tool.name] = name
            new.add(name)
        return new

    def shown_name(self, name: str, namespace: str | None) -> str:
        """The name that the model is shown, also of a tool that is not declared any more."""
        own = name if namespace is None else f"{namespace}{BETWEEN}{name}"
        return self._names.get((namespace, name), own)

    def named(self, choice: dict[str, Any]) -> str | None:
        """The shown name of the tool that a part of `tool_choice` names; None where it names none."""
        kind = choice.get("type")
        nested = choice.get("function")
        entry = nested if isinstance(nested, dict) else choice
        name = kind if kind in NAMELESS else entry.get("name")
        if kind not in (FUNCTION, CUSTOM, *NAMELESS) or not isinstance(name, str):
            return None
        namespace = entry.get("namespace")
        own = namespace if isinstance(namespace, str) else None
        namespaces = [own, *(space for space, _ in self._names)]
        return next((self._names[space, name] for space in namespaces if (space, name) in self._names), None)

    def get(self, name: str) -> DeclaredTool:
        """The tool of a shown name; a function of that name where none is declared."""
        return self._tools.get(name) or DeclaredTool(FUNCTION, name)

    @property
    def names(self) -> list[str]:
        return list(self._tools)

    def chat_tools(self, names: Iterable[str]) -> list[dict[str, Any]]:
        """The tools of these names as a chat request declares them."""
        return [self._chat_tool(self._tools[name]) for name in names]

    @property
    def text_formats(self) -> dict[str, dict[str, Any]]:
        """Name → what holds the text of its calls."""
        return {name: tool.text_format for name, tool in self._tools.items() if tool.text_format}

    def _chat_tool(self, tool: DeclaredTool) -> dict[str, Any]:
        name = self.shown_name(tool.name, tool.namespace)
        return {"type": FUNCTION, "function": {"name": name, **tool.function}}
