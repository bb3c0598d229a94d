"""Formats that llguidance compiles without conversion to Lark rules: JSON schemas and whole grammars."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from llguidance.gbnf_to_lark import gbnf_to_lark

from pipelines.grammars.formats import Format
from pipelines.grammars.grammar_limits import check_schema, check_text
from pipelines.grammars.normal_schema import normal_schema
from pipelines.grammars.schema_keywords import SchemaError

WHITESPACE = r" |\r?\n[ \t]{0,64}"
"""The space between tokens of JSON: one space as JSON is written, or a line with its indentation.

A second space is what a weak model writes that would rather write no JSON, and what follows is worse for it;
llama.cpp allows one too.
"""
EBNF_RULE = re.compile(r"^\s*[\w-]+\s*::=", re.MULTILINE)
LARK_RULE = re.compile(r"^\s*(%llguidance\b|\??start\s*:)", re.MULTILINE)
LONG_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})")


class FormatError(ValueError):
    """A format is invalid; the text is for the client."""


def nested_grammar(node: Format) -> dict[str, Any]:
    """One entry of llguidance's list of grammars, without its name."""
    fields, write = LEAF_FORMATS[node["type"]]
    if unknown := sorted(node.keys() - fields - {"type"}):
        raise FormatError(f"unknown field {unknown[0]!r} in a format of type {node['type']!r}")
    return write(node)


def _json_schema(node: Format) -> dict[str, Any]:
    schema = read_schema(node.get("json_schema"), closes=bool(node.get("disable_additional_properties")))
    options = schema.get("x-guidance", {})
    return {
        "json_schema": {
            **schema,
            "x-guidance": {**(options if isinstance(options, dict) else {}), **_spaces(node)},
        }
    }


def _spaces(node: Format) -> dict[str, Any]:
    """The whitespace between the tokens of JSON; a keyword that cannot be enforced is always an error."""
    whitespace = node.get("whitespace_pattern", WHITESPACE)
    if not isinstance(whitespace, str):
        raise FormatError("whitespace_pattern must be a string")
    if node.get("disable_any_whitespace"):
        if "whitespace_pattern" in node:
            raise FormatError("whitespace_pattern cannot be combined with disable_any_whitespace")
        return {"lenient": False, "whitespace_flexible": False}
    return {"lenient": False, "whitespace_flexible": True, "whitespace_pattern": whitespace}


def read_schema(value: Any, *, closes: bool = False) -> dict[str, Any]:
    """The normal form of a JSON Schema: an object, true or false, or JSON text of one of them.

    `closes`: objects with named properties take no others, unless they say so.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"the JSON schema is no JSON: {error}") from error
    if value is False:
        raise FormatError("Grammar error: Unsatisfiable schema: schema is false")
    if value is True:
        return {}
    if not isinstance(value, dict):
        raise FormatError("a JSON schema must be an object, true or false")
    try:
        schema = normal_schema(value, closes=closes)
    except SchemaError as error:
        raise FormatError(str(error)) from error
    check_schema(schema)
    return schema


def _grammar(node: Format) -> dict[str, Any]:
    text = node.get("grammar")
    if not isinstance(text, str):
        raise FormatError("a grammar must be a string")
    check_text(text)
    try:
        return {"lark_grammar": lark_of(text)}
    except Exception as error:  # the converter raises bare Exception
        raise FormatError(
            f"Invalid grammar specification: Failed to convert the grammar from GBNF to Lark: {error}"
        ) from error


def lark_of(text: str) -> str:
    """Lark text unchanged; rules with `::=` are EBNF, as in llama.cpp and xgrammar, and are converted."""
    if LARK_RULE.search(text) and not EBNF_RULE.search(text):
        return text
    return gbnf_to_lark(LONG_ESCAPE.sub(_spelled, text))


def _spelled(escape: re.Match[str]) -> str:
    """The converter drops zeros of long escapes, so they are replaced by their characters."""
    char = chr(int(escape[1] or escape[2], 16))
    return char if char.isprintable() and char not in '"\\[]' else escape[0]


LEAF_FORMATS: dict[str, tuple[set[str], Callable[[Format], dict[str, Any]]]] = {
    "json_schema": (
        {"json_schema", "disable_any_whitespace", "disable_additional_properties", "whitespace_pattern"},
        _json_schema,
    ),
    "grammar": ({"grammar"}, _grammar),
}
"""Type of a format → its fields, and the function that writes its entry."""
