"""Schemas of Gemini's API, which have types in capitals, as JSON Schemas."""

from __future__ import annotations

from typing import Any

NESTED = ("items", "additionalProperties")
LISTS = ("anyOf", "prefixItems")


def json_schema(schema: Any) -> Any:
    """The JSON Schema of one of Gemini's; other values as they are."""
    if not isinstance(schema, dict):
        return schema
    out = {key: _value(key, value) for key, value in schema.items() if key not in ("nullable", "format")}
    if "format" in schema and schema["format"] != "enum":
        out["format"] = schema["format"]
    if schema.get("nullable"):
        return {"anyOf": [out, {"type": "null"}]}
    return out


def _value(key: str, value: Any) -> Any:
    if key == "type" and isinstance(value, str):
        return value.lower()
    if key == "properties" and isinstance(value, dict):
        return {name: json_schema(each) for name, each in value.items()}
    if key in LISTS and isinstance(value, list):
        return [json_schema(each) for each in value]
    return json_schema(value) if key in NESTED else value
