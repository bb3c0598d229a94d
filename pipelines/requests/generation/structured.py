"""Constraints on the text of a reply: the fields of several APIs → one `Constraint`.

`response_format` is OpenAI's, with places for a schema of llama.cpp and text-generation-inference;
`structured_outputs` is vLLM's, `guided_*` and `structural_tag` are those of older vLLM and FastDeploy;
`grammar` is llama.cpp's, `regex` and `ebnf` are SGLang's, `json_schema` that of both.  Grammars are compiled
later.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pipelines.base.errors import RequestError
from pipelines.requests.fields.error_text import quoted
from pipelines.requests.fields.known_fields import check_fields
from pipelines.values.tasks import Constraint

MAX_CHOICES = 4096
MAX_GRAMMAR_CHARS = 1 << 20

FORMAT_NODES = (
    "any_text",
    "const_string",
    "grammar",
    "optional",
    "or",
    "plus",
    "regex",
    "repeat",
    "sequence",
    "star",
    "tag",
    "tags_with_separator",
    "triggered_tags",
)
"""xgrammar's nodes, which OpenVINO Model Server takes for a whole `response_format`."""

SCHEMA_PLACES = ("schema", "value")
"""Keys of a `response_format` with a schema: llama.cpp's, and text-generation-inference's."""
SCHEMA_FIELDS = ("name", "description", "schema", "strict")
FORMAT_FIELDS = ("type", "json_schema", "value", *SCHEMA_FIELDS)
FORMATS = ("text", "json_object", "json_schema", "structural_tag")
OPTIONS = ("disable_any_whitespace", "disable_additional_properties", "whitespace_pattern")


def read_constraint(fields: Mapping[str, Any]) -> Constraint | None:
    """The one constraint among a request's fields, None when there is none.

    Raises RequestError for two of them, and for one that is malformed.
    """
    constraints = [
        *_response_format(fields.get("response_format")),
        *_outputs(fields.get("structured_outputs")),
    ]
    guided = list(_guided(fields))
    if len(guided) > 1:
        names = ", ".join(f"'{name}'" for name in GUIDED)
        raise RequestError(f"You can only use one kind of guided decoding ({names}).", field=guided[1].where)
    constraints += guided
    constraints += _of_others(fields)
    if len(constraints) > 1:
        places = " and ".join(constraint.where for constraint in constraints)
        raise RequestError(
            "You can only use one kind of structured outputs constraint but multiple are specified: "
            + places,
            field=constraints[1].where,
        )
    return constraints[0] if constraints else None


def _response_format(value: Any) -> Iterator[Constraint]:
    where = "response_format"
    if value is None:
        return
    kind = value.get("type")
    if kind in FORMATS and kind != "structural_tag":
        check_fields(_others(value, FORMAT_FIELDS), FORMAT_FIELDS, where=f"{where}.")
    if kind in ("json_object", "json_schema"):
        yield _json_format(value, where)
    elif kind == "structural_tag":
        yield Constraint("structural_tag", value, where)
    elif kind in FORMAT_NODES:
        yield Constraint("structural_tag", {"type": "structural_tag", "format": value}, where)
    elif kind != "text":
        raise RequestError(
            f"`{where}.type` must be one of {', '.join(FORMATS)}, got {quoted(kind)}",
            field=f"{where}.type",
        )


def _named_schema(value: Any) -> Any:
    """The schema in `json_schema`.  Without one any JSON will do."""
    where = "response_format.json_schema"
    if value is None:
        raise RequestError(
            "When response_format type is 'json_schema', the 'json_schema' field must be provided.",
            field="response_format",
        )
    if not isinstance(value, dict):
        raise RequestError(f"`{where}` must be an object, got {quoted(value)}", field=where)
    check_fields(_others(value, SCHEMA_FIELDS), SCHEMA_FIELDS, where=f"{where}.")
    return True if value.get("schema") is None else _schema(value["schema"], f"{where}.schema")


def _json_format(value: Mapping[str, Any], where: str) -> Constraint:
    """Any JSON object, or what a schema allows, which is in `json_schema` or beside the type."""
    named = value.get("json_schema") if value["type"] == "json_schema" else None
    schema = _schema_beside(value) if named is None else _named_schema(named)
    if value["type"] == "json_schema" and schema is None:
        schema = _named_schema(named)
    if value["type"] == "json_object" and not schema:
        return Constraint("json", value=None, where=where)
    strict = (value if named is None else named).get("strict")
    return Constraint("json_schema", schema, where, loose=strict is not True)


def _schema_beside(value: Mapping[str, Any]) -> Any:
    """The schema that stands beside the type of a `response_format`; None without one."""
    place = next((name for name in SCHEMA_PLACES if value.get(name) is not None), None)
    return None if place is None else _schema(value[place], f"response_format.{place}")


def _others(value: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    return {name: field for name, field in value.items() if name not in known}


def _schema(value: Any, where: str) -> Any:
    """A JSON Schema as an object or a truth value, or as the JSON text of one."""
    value = _parsed(value, where)
    if not isinstance(value, dict | bool):
        raise RequestError(f"`{where}` must be a JSON Schema, got {quoted(value)}", field=where)
    return value


def _tag(value: Any, where: str) -> Any:
    value = _parsed(value, where)
    if not isinstance(value, dict):
        raise RequestError(f"`{where}` must be a structural tag, got {quoted(value)}", field=where)
    return value


def _parsed(value: Any, where: str) -> Any:
    """A value that may also come as its JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise RequestError(f"`{where}` is not valid JSON: {quoted(value)}", field=where) from None


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise RequestError(f"`{where}` must be a string, got {quoted(value)}", field=where)
    if len(value) > MAX_GRAMMAR_CHARS:
        raise RequestError(f"`{where}` may have {MAX_GRAMMAR_CHARS} characters at most", field=where)
    return value


def _choices(value: Any, where: str) -> list[str]:
    if value == []:
        raise RequestError("Choice '[]' cannot be an empty list", field=where)
    if not isinstance(value, list) or not all(isinstance(choice, str) for choice in value):
        raise RequestError(f"`{where}` must be a list of strings, got {quoted(value)}", field=where)
    if len(value) > MAX_CHOICES:
        raise RequestError(f"`{where}` may hold {MAX_CHOICES} choices at most", field=where)
    return value


def _any_object(value: Any, where: str) -> None:
    if not isinstance(value, bool):
        raise RequestError(f"`{where}` must be true or false, got {quoted(value)}", field=where)


class ConstraintKind(NamedTuple):
    """A kind of constraint under a client's name for it."""

    kind: str
    read: Callable[[Any, str], Any]


KINDS: dict[str, ConstraintKind] = {
    "json": ConstraintKind("json_schema", _schema),
    "regex": ConstraintKind("regex", _text),
    "choice": ConstraintKind("choice", _choices),
    "grammar": ConstraintKind("grammar", _text),
    "json_object": ConstraintKind("json", _any_object),
    "structural_tag": ConstraintKind("structural_tag", _tag),
}
"""Keys of `structured_outputs`."""

GUIDED: dict[str, ConstraintKind] = {
    "guided_json": KINDS["json"],
    "guided_regex": KINDS["regex"],
    "guided_choice": KINDS["choice"],
    "guided_grammar": KINDS["grammar"],
    "structural_tag": KINDS["structural_tag"],
}
"""Fields of the request itself, of which it has one at most."""

OTHERS: dict[str, ConstraintKind] = {
    "grammar": KINDS["grammar"],
    "json_schema": KINDS["json"],
    "ebnf": KINDS["grammar"],
    "regex": KINDS["regex"],
}
"""Fields of llama.cpp's and SGLang's requests; an empty text is none, as some clients always send them."""


def _outputs(value: Any) -> Iterator[Constraint]:
    where = "structured_outputs"
    if value is None:
        return
    present = {name: part for name, part in value.items() if part is not None}
    check_fields(_others(present, (*KINDS, *OPTIONS)), (*KINDS, *OPTIONS), where=f"{where}.")
    kinds = [name for name in KINDS if name in present and present[name] is not False]
    if not kinds:
        raise RequestError(
            "You must use one kind of structured outputs constraint but none are specified; allowed: "
            + ", ".join(KINDS),
            field=where,
        )
    if len({"json", "regex", "choice"} & set(kinds)) > 1:
        raise RequestError(
            "You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice').",
            field=where,
        )
    options = {name: _option(name, present[name], f"{where}.{name}") for name in OPTIONS if name in present}
    for name in kinds:
        place = f"{where}.{name}"
        yield Constraint(KINDS[name].kind, KINDS[name].read(present[name], place), place, options)


def _option(name: str, value: Any, where: str) -> Any:
    wanted = str if name == "whitespace_pattern" else bool
    if not isinstance(value, wanted):
        allowed = "a string" if wanted is str else "true or false"
        raise RequestError(f"`{where}` must be {allowed}, got {quoted(value)}", field=where)
    return value


def _guided(fields: Mapping[str, Any]) -> Iterator[Constraint]:
    pattern = fields.get("guided_whitespace_pattern")
    options = {"whitespace_pattern": pattern} if pattern is not None else {}
    for name, (kind, read) in GUIDED.items():
        if fields.get(name) is not None:
            yield Constraint(kind, read(fields[name], name), name, options)


def _of_others(fields: Mapping[str, Any]) -> Iterator[Constraint]:
    for name, (kind, read) in OTHERS.items():
        if fields.get(name) not in (None, ""):
            yield Constraint(kind, read(fields[name], name), name, loose=name == "json_schema")
