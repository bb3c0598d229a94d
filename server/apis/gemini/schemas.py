"""Schemas of Gemini's API, with types in capitals and 64-bit numbers as text, as JSON Schemas."""

from __future__ import annotations

from typing import Any

from pydantic.alias_generators import to_snake

NESTED = ("items", "additionalProperties")
LISTS = ("anyOf", "prefixItems")
MAPS = ("properties", "$defs")
COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
"""64-bit numbers, which JSON of Google's APIs has as text; its clients in JavaScript write them so alone."""
OF_TWO_WORDS = (*LISTS, "additionalProperties", "propertyOrdering", *COUNTS)
NAMES = {**{to_snake(name): name for name in OF_TWO_WORDS}, "defs": "$defs", "ref": "$ref"}
"""Another name of a keyword → that of JSON Schema."""
MAX_DIGITS = 19
"""The digits of the largest 64-bit number; more are no other bound."""
NO_TYPE = "type_unspecified"


def json_schema(schema: Any) -> Any:
    """The JSON Schema of one of Gemini's; other values as they are."""
    if not isinstance(schema, dict):
        return schema
    named = {NAMES.get(str(key), str(key)): value for key, value in schema.items()}
    out = {key: _value(key, value) for key, value in named.items() if key not in ("nullable", "format")}
    if out.get("type") == NO_TYPE:
        del out["type"]
    if "format" in named and named["format"] != "enum":
        out["format"] = named["format"]
    if named.get("nullable"):
        return {"anyOf": [out, {"type": "null"}]}
    return out


def _value(key: str, value: Any) -> Any:
    if key == "type" and isinstance(value, str):
        return value.lower()
    if key in COUNTS and isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value[:MAX_DIGITS])
    if key == "$ref" and isinstance(value, str):
        return value.replace("#/defs/", "#/$defs/", 1)
    if key in MAPS and isinstance(value, dict):
        return {name: json_schema(inner) for name, inner in value.items()}
    if key in LISTS and isinstance(value, list):
        return [json_schema(inner) for inner in value]
    return json_schema(value) if key in NESTED else value
