"""A JSON schema → rules for the shortest JSON that fits it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from pipelines.grammars.regex_rules import regex_rules
from pipelines.grammars.shortest_words import Item, Rules

TYPES = ("string", "integer", "number", "boolean", "null", "object", "array")
MAX_COUNT = 1 << 40


def schema_rules(schema: Any, rules: Rules, name: str) -> None:
    """Add a rule for a schema, and one for each schema that it leads to.  A string counts as its quotes.

    What the schema demands twice, in `allOf` for one, counts twice: the compiler joins it piece by piece.
    """
    _SchemaReader(schema, rules, name).read()


def target_of(schema: Any, reference: str) -> Any:
    """What a reference into a schema names; None when it is not found."""
    if not reference.startswith("#") or (reference != "#" and not reference.startswith("#/")):
        return None
    target = schema
    for part in unquote(reference).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, dict):
            target = target.get(key)
        elif isinstance(target, list) and key.isdecimal() and int(key) < len(target):
            target = target[int(key)]
        else:
            return None
    return target


class _SchemaReader:
    def __init__(self, schema: Any, rules: Rules, name: str) -> None:
        self._root = schema
        self._rules = rules
        self._start = name
        self._names: dict[int, str] = {}
        self._waiting: list[tuple[str, dict[str, Any]]] = []

    def read(self) -> None:
        self._rules[self._start] = [[(self._item(self._root), 1)]]
        while self._waiting:
            name, schema = self._waiting.pop()
            self._rules[name] = [[(item, times) for item, times in self._demands(name, schema)]]

    def _item(self, schema: Any) -> str | int:
        """The rule of a schema; any JSON is free, and does not count."""
        if schema is False:
            return self._choice(f"{self._start}:false", [])
        if not isinstance(schema, dict) or not schema:
            return 0
        if id(schema) not in self._names:
            name = f"{self._start}:{len(self._names)}"
            self._names[id(schema)] = name
            self._waiting.append((name, schema))
        return self._names[id(schema)]

    def _choice(self, name: str, alternatives: list[list[Item]]) -> str:
        self._rules[name] = alternatives
        return name

    def _demands(self, name: str, schema: dict[str, Any]) -> Iterator[Item]:
        """All that JSON of a schema must be."""
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield self._item(target_of(self._root, reference)), 1
        for part in _list(schema.get("allOf")):
            yield self._item(part), 1
        for keyword in ("anyOf", "oneOf"):
            if isinstance(schema.get(keyword), list):
                each_of = [[(self._item(part), 1)] for part in schema[keyword]]
                yield self._choice(f"{name}.{keyword}", each_of), 1
        if isinstance(schema.get("enum"), list):
            yield self._choice(f"{name}.enum", [[(_length(value), 1)] for value in schema["enum"]]), 1
        elif "const" in schema:
            yield _length(schema["const"]), 1
        elif not isinstance(reference, str):
            types = schema.get("type")
            types = [types] if isinstance(types, str) else types if isinstance(types, list) else TYPES
            of_types = [
                list(self._of_type(name, type_name, schema)) for type_name in types if type_name in TYPES
            ]
            yield self._choice(f"{name}.type", of_types or [[]]), 1

    def _of_type(self, name: str, type_name: str, schema: dict[str, Any]) -> Iterator[Item]:
        yield {"string": 2, "object": 2, "array": 2, "boolean": 4, "null": 4}.get(type_name, 1), 1
        if type_name == "string":
            yield from self._string(name, schema)
        elif type_name == "array":
            yield from self._array(schema)
        elif type_name == "object":
            yield from self._object(schema)

    def _string(self, name: str, schema: dict[str, Any]) -> Iterator[Item]:
        if isinstance(schema.get("pattern"), str):
            regex_rules(schema["pattern"], self._rules, f"{name}.pattern")
            yield f"{name}.pattern", 1

    def _array(self, schema: dict[str, Any]) -> Iterator[Item]:
        first, least = _list(schema.get("prefixItems")), _count(schema.get("minItems"))
        for place, each in enumerate(first):
            yield self._item(each), int(place < least)
        yield self._item(schema.get("items", True)), max(0, least - len(first))

    def _object(self, schema: dict[str, Any]) -> Iterator[Item]:
        properties, patterns = _dict(schema.get("properties")), _dict(schema.get("patternProperties"))
        others = True if patterns else schema.get("additionalProperties", True)
        required = {key for key in _list(schema.get("required")) if isinstance(key, str)}
        for key in required:
            yield len(key) + 3, 1
            yield self._item(properties.get(key, others)), 1
        optional = [each for key, each in properties.items() if key not in required]
        for each in (*optional, *patterns.values(), others):
            yield self._item(each), 0


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: Any) -> int:
    return int(min(value, MAX_COUNT)) if isinstance(value, int | float) and value > 0 else 0


def _length(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False))
