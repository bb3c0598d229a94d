"""Converts a client's constraint of any kind to one tree of formats.

A format is a node of xgrammar's structural tags: {"type": …, …}.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pipelines.base.errors import RequestError
from pipelines.values.tasks import Constraint

Format = dict[str, Any]
GrammarWriter = Callable[[Format, str], str]
"""A format and the request's field that it came from → a checked grammar.  Raises RequestError."""

MAX_CHOICES = 10_000


def format_of(constraint: Constraint) -> Format:
    """The format of a constraint.  Raises RequestError for a value that does not fit its kind."""
    options = constraint.options
    if options.get("disable_any_whitespace") and options.get("whitespace_pattern") is not None:
        raise RequestError("disable_any_whitespace leaves no room for a whitespace_pattern", constraint.where)
    return KINDS[constraint.kind](constraint)


def _json(constraint: Constraint) -> Format:
    return {"type": "json_schema", "json_schema": {"type": "object"}, **constraint.options}


def _json_schema(constraint: Constraint) -> Format:
    return {"type": "json_schema", "json_schema": constraint.value, **constraint.options}


def _regex(constraint: Constraint) -> Format:
    return {"type": "regex", "pattern": constraint.value}


def _grammar(constraint: Constraint) -> Format:
    return {"type": "grammar", "grammar": constraint.value}


def _choice(constraint: Constraint) -> Format:
    choices = constraint.value
    if not isinstance(choices, list) or not all(isinstance(one, str) for one in choices):
        raise RequestError("choice must be a list of strings", constraint.where)
    if not choices:
        raise RequestError("Choice '[]' cannot be an empty list", constraint.where)
    if len(choices) > MAX_CHOICES:
        raise RequestError(f"choice has more than {MAX_CHOICES} strings", constraint.where)
    return {"type": "choice", "choices": choices}


def _structural_tag(constraint: Constraint) -> Format:
    """The new syntax {"format": …}, the legacy one {"structures": …, "triggers": …}, or a bare node."""
    value = parsed(constraint.value, constraint.where)
    if "structures" in value or "triggers" in value:
        return _legacy(value, constraint.where)
    inner = value.get("format", value)
    if not isinstance(inner, dict):
        raise RequestError("the structural tag's format must be an object", constraint.where)
    return inner


def _legacy(value: Format, where: str) -> Format:
    structures, triggers = value.get("structures"), value.get("triggers")
    if not isinstance(structures, list) or not all(isinstance(structure, dict) for structure in structures):
        raise RequestError("structures must be a list of objects", where)
    tags = [
        {
            "type": "tag",
            "begin": structure.get("begin"),
            "content": {
                "type": "json_schema",
                "json_schema": structure.get("schema", structure.get("structural_tag_schema")),
            },
            "end": structure.get("end"),
        }
        for structure in structures
    ]
    return {"type": "triggered_tags", "triggers": triggers, "tags": tags}


def parsed(value: Any, where: str) -> Format:
    """An object, or JSON text of one."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise RequestError(f"the structural tag is no JSON: {error}", where) from error
    if not isinstance(value, dict):
        raise RequestError("a structural tag must be an object", where)
    return value


KINDS: dict[str, Callable[[Constraint], Format]] = {
    "json": _json,
    "json_schema": _json_schema,
    "regex": _regex,
    "choice": _choice,
    "grammar": _grammar,
    "structural_tag": _structural_tag,
}
"""Kind of a constraint → the function that reads its value."""
