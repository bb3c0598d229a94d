"""Fields of a pydantic model → rows of a Markdown table: name, type, default, description."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

Schema = Mapping[str, Any]
NAMES = {"integer": "integer", "number": "number", "string": "text", "boolean": "true or false"}
BOUNDS = {"minimum": "≥ {}", "exclusiveMinimum": "> {}", "maximum": "≤ {}"}


def setting_rows(model: type[BaseModel]) -> Iterator[tuple[str, str, str, str]]:
    """(name, type, default, description) of each field; a nested model's fields are `outer.inner`."""
    schema = model.model_json_schema()
    yield from _rows(schema, schema.get("$defs", {}), "")


def _rows(schema: Schema, nested: Mapping[str, Schema], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        if "$ref" in field:
            yield from _rows(nested[field["$ref"].rpartition("/")[2]], nested, f"{prefix}{name}.")
            continue
        default = "required" if name in required else default_text(field.get("default"))
        yield prefix + name, type_text(field), default, field.get("description", "")


def type_text(schema: Schema) -> str:
    """The type of a JSON Schema in words: `integer ≥ 1`, one of its words, a path."""
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    if options:
        return " or ".join(map(type_text, options))
    words = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if words:
        return ", ".join(f"`{word}`" for word in words)
    if schema.get("format") == "path":
        return "path"
    if schema.get("type") == "array":
        return f"list of {type_text(schema.get('items', {}))}"
    if schema.get("type") == "object":
        return "mapping"
    bounds = [form.format(f"{schema[key]:,}") for key, form in BOUNDS.items() if key in schema]
    return " ".join([NAMES.get(schema.get("type", ""), "any"), ", ".join(bounds)]).strip()


def default_text(value: Any) -> str:
    """A default as it is written in a graph file; nothing where there is none."""
    return "" if value in (None, {}, [], ()) else f"`{json.dumps(value)}`".replace('"', "")


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table; bars within cells are escaped."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
