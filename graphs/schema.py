"""The JSON Schema of graph.yaml (draft 2020-12), made from the node classes, for editors.

It covers names, settings and inputs.  Order, types and files are checked by `graphs.check` only.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from graphs import node
from graphs.graph import ROOTS, PortsBySettings, Task
from graphs.header import VERSION
from graphs.keep_alive import WORDS
from graphs.node import Node

NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
SOURCE = {
    "type": "string",
    "pattern": r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$",
    "description": "a name above, a root, or a field of one: `request.query`",
}


def schema(node_types: Mapping[str, type[Node]], tasks: Mapping[str, Task]) -> dict[str, Any]:
    """A schema that accepts every graph that the checker accepts."""
    classes = dict(node_types.items())
    definitions: dict[str, Any] = {"source": SOURCE}
    for name, node_type in classes.items():
        definitions.update(_definitions(name, node_type))
    definitions["lines"] = _lines([name for name, node_type in classes.items() if node_type.place != "step"])
    definitions["body"] = _lines([name for name, node_type in classes.items() if node_type.place == "step"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Braid graph",
        "description": "A list of lines read top to bottom; the last line is the reply.",
        "type": "object",
        "required": ["version", "task", "nodes"],
        "additionalProperties": False,
        "properties": {
            "version": {"const": VERSION, "description": "the version of the language"},
            "task": {"enum": list(tasks), "description": "what clients can request of this graph"},
            "description": {"type": "string", "description": "text for people"},
            "pinned": {"type": "boolean", "description": "the model never leaves memory by itself"},
            "keep_alive": {"type": ["number", "string"], "description": f"time without calls: {WORDS}"},
            "nodes": {"$ref": "#/$defs/lines"},
        },
        "$defs": definitions,
    }


def _lines(types: list[str]) -> dict[str, Any]:
    """A list of lines whose types are among `types`, distinguished by the constant of `type`."""
    line: dict[str, Any] = {
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"enum": types}},
        "oneOf": [{"$ref": f"#/$defs/type.{name}"} for name in types],
    }
    return {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"pattern": NAME, "not": {"enum": list(ROOTS)}},
        "additionalProperties": line if types else False,
    }


def _definitions(name: str, node_type: type[Node]) -> dict[str, Any]:
    """The line of one node type, and the nested models of its settings under names of their own."""
    settings_schema = node_type.Config.model_json_schema(ref_template=f"#/$defs/type.{name}.{{model}}")
    nested = {
        f"type.{name}.{model}": definition for model, definition in settings_schema.pop("$defs", {}).items()
    }
    settings = settings_schema.get("properties", {})
    required = ["type", *settings_schema.get("required", ())]
    properties: dict[str, Any] = {
        "type": {"const": name, "description": _first_paragraph(node_type)},
        "from": _from(node_type),
        **settings,
    }
    if node_type.body is not None:
        properties["body"] = {"$ref": "#/$defs/body", "description": f"lines from `{node_type.body.root}`"}
        required.append("body")
    line = {
        "type": "object",
        "title": name,
        "description": _first_paragraph(node_type),
        "required": required,
        "properties": properties,
        "additionalProperties": False,
    }
    return {f"type.{name}": line, **nested}


def _from(node_type: type[Node]) -> dict[str, Any]:
    """A name for the first input, or names by input; inputs that depend on settings are not restricted."""
    source = {"$ref": "#/$defs/source"}
    named: dict[str, Any] = {"type": "object", "additionalProperties": source}
    if not issubclass(node_type, PortsBySettings):
        ports = node.inputs(node_type)
        named = {"type": "object", "properties": dict.fromkeys(ports, source), "additionalProperties": False}
    return {"anyOf": [source, named], "description": "where the inputs come from"}


def _first_paragraph(node_type: type[Node]) -> str:
    return " ".join((inspect.getdoc(node_type) or "").split("\n\n")[0].split())
