"""Converts values that a model wrote as plain text, by the JSON schema of the declared tool."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.nodes.text.parsers.tools.json_values import as_json, read_json

TYPES = {"string", "integer", "number", "boolean", "object", "array", "null"}
UNREADABLE = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)
"""What Python's parsers raise on text that is no value."""


class Declared:
    """The tools of a request, as `{"type": "function", "function": {"name", "parameters"}}`."""

    def __init__(self, tools: Sequence[dict[str, Any]] = ()) -> None:
        functions = [tool.get("function") or tool for tool in tools]
        self._parameters = {each.get("name"): each.get("parameters") for each in functions}

    def name_in(self, id: str) -> str:
        """The tool whose name is in a call's id, or the only tool; "" where neither is."""
        bare = re.sub(r"^functions\W?_?|\W?_?\d*$", "", id)
        named = [name for name in self._parameters if name and re.sub(r"\W", "_", name) == bare]
        known = named or (list(self._parameters) if len(self._parameters) == 1 else [])
        return str(known[0] or "") if known else ""

    def schema(self, function: str, parameter: str) -> dict[str, Any] | None:
        """The schema of one parameter; None where it is not declared."""
        parameters = self._parameters.get(function)
        properties = parameters.get("properties") if isinstance(parameters, dict) else None
        schema = properties.get(parameter) if isinstance(properties, dict) else None
        return schema if isinstance(schema, dict) else None

    def is_text(self, function: str, parameter: str) -> bool:
        """Whether a value is always taken as text."""
        return _types(self.schema(function, parameter)) == {"string"}

    def value(self, function: str, parameter: str, text: str) -> Any:
        """The value of `text` by the schema.

        A string is the text itself; numbers, booleans, objects, arrays and null are parsed.  Without a
        declared type the text is parsed as JSON; what does not fit is the text itself.
        """
        if self.is_text(function, parameter):
            return text
        types = _types(self.schema(function, parameter))
        value = _read(text, types)
        return value if not types or _fits(value, types) else text


def _types(schema: dict[str, Any] | None) -> set[str]:
    """The names of the types that a schema allows; none where it declares none."""
    if schema is None:
        return set()
    named = schema.get("type")
    if isinstance(named, str | list):
        return TYPES & {
            type_name
            for type_name in ([named] if isinstance(named, str) else named)
            if isinstance(type_name, str)
        }
    if isinstance(schema.get("enum"), list):
        return {_type(value) for value in schema["enum"]}
    several = [
        schema_part
        for key in ("anyOf", "oneOf")
        if isinstance(schema.get(key), list)
        for schema_part in schema[key]
    ]
    return {name for schema_part in several if isinstance(schema_part, dict) for name in _types(schema_part)}


def _read(text: str, types: set[str]) -> Any:
    """The value in JSON, or as Python writes it where a type other than string is declared."""
    try:
        return read_json(text)
    except ValueError:
        pass
    word = text.strip().lower()
    if word in ("true", "false") and "boolean" in types:
        return word == "true"
    if word in ("none", "null") and "null" in types:
        return None
    if types & {"object", "array"} and text.lstrip()[:1] in ("{", "["):
        return _read_python(text)
    return text


def _read_python(text: str) -> Any:
    """A Python literal of lists and dicts; the text itself where it is none that JSON can hold."""
    try:
        return read_json(as_json(ast.literal_eval(text.strip())))
    except UNREADABLE:
        return text


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if value is None:
        return "null"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "string" if isinstance(value, str) else "object" if isinstance(value, Mapping) else "array"


def _fits(value: Any, types: set[str]) -> bool:
    return _type(value) in types or (
        isinstance(value, int) and _type(value) != "boolean" and "number" in types
    )
