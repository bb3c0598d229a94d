"""The same JSON Schema as other drafts, OpenAPI and serializers write it, at random; the same for the same seed."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any
from urllib.parse import quote

ODD_NAMES = ("Foo[int]", "日本", "a b", "Page<Item>", "x/y~z", "a%20b", "größe#1", '"q"')
SAY_NOTHING: dict[str, Any] = {
    "title": "T",
    "description": "d",
    "default": None,
    "examples": [1e999],
    "$comment": "oneOf",
    "x-order": {"enum": 5},
    "readOnly": True,
    "uniqueItems": False,
    "not": False,
    "propertyNames": {"type": "string", "title": "k"},
    "dependentRequired": {},
    "minContains": 3,
    "then": False,
}
NULLS = (
    "enum",
    "format",
    "pattern",
    "required",
    "oneOf",
    "items",
    "$ref",
    "nullable",
    "maxLength",
    "minimum",
)
WIDEST: dict[str, dict[str, Any]] = {
    "string": {"maxLength": 2**63 - 1, "minLength": 0.0},
    "integer": {"minimum": -(2**63), "maximum": 2**63 - 1},
    "number": {"minimum": -1.7976931348623157e308, "maximum": 1.7976931348623157e308},
    "array": {"maxItems": 2**40, "minItems": 0.0},
}
SUBSCHEMAS = ("items", "additionalProperties", "not", "if")


class DialectWriter:
    """Writes a schema in 2020-12 in another dialect that means the same."""

    def __init__(self, seed: int, *, widens: bool = True, refers: bool = True) -> None:
        self.draw = random.Random(seed)
        self.widens = widens
        self.refers = refers
        self.home = self.draw.choice(["$defs", "definitions", "x-types", "components"])
        self.defined: dict[str, Any] = {}

    def root(self, schema: Any) -> Any:
        if not isinstance(schema, dict):
            return schema
        known = schema.get("$defs", {})
        written = self.schema({name: value for name, value in schema.items() if name != "$defs"})
        for name, value in known.items():
            self.defined.setdefault(name, self.schema(value))
        if self.defined:
            written[self.home] = self.defined
        if self.draw.random() < 0.3:
            written["$schema"] = "http://json-schema.org/draft-07/schema#"
        return written

    def schema(self, value: Any, depth: int = 0) -> Any:
        if not isinstance(value, dict):
            return value
        schema = {name: self._inner(name, inner, depth) for name, inner in value.items()}
        for change in (self._null, self._tuple, self._branches, self._exclusive, self._float, self._closed):
            if self.draw.random() < 0.6:
                change(schema)
        if (
            self.widens
            and self.draw.random() < 0.4
            and not {"enum", "const", "format", "multipleOf"} & schema.keys()
        ):
            schema = {**WIDEST.get(str(schema.get("type")), {}), **schema}
        said = self.draw.sample(sorted(SAY_NOTHING), self.draw.randint(0, 3))
        schema = {**{name: deepcopy(SAY_NOTHING[name]) for name in said}, **schema}  # a test may change it
        nulls = self.draw.sample(NULLS, self.draw.randint(0, 3))
        schema = {**dict.fromkeys(nulls), **schema}
        if schema.get("type") == "string" and schema.get("format") is None and self.draw.random() < 0.5:
            schema["format"] = self.draw.choice(["password", "byte", "uri-reference", ""])
        return self._moved(schema) if self.refers and depth and self.draw.random() < 0.3 else schema

    def _inner(self, name: str, value: Any, depth: int) -> Any:
        if name == "$ref":
            return self._reference(value.removeprefix("#/$defs/"))
        if name in ("properties", "patternProperties"):
            return {key: self.schema(each, depth + 1) for key, each in value.items()}
        if name in ("anyOf", "allOf", "prefixItems"):
            return [self.schema(each, depth + 1) for each in value]
        return self.schema(value, depth + 1) if name in SUBSCHEMAS else value

    def _reference(self, name: str) -> str:
        escaped = name.replace("~", "~0").replace("/", "~1")
        encodes = "%" in name or self.draw.random() < 0.5
        return f"#/{self.home}/{quote(escaped, safe='~') if encodes else escaped}"

    def _moved(self, schema: Any) -> Any:
        """A reference in place of the schema, among the definitions under an odd name."""
        name = self.draw.choice(ODD_NAMES) + str(len(self.defined))
        self.defined[name] = schema
        return {"$ref": self._reference(name)}

    def _null(self, found: dict[str, Any]) -> None:
        kinds = found.get("type")
        if isinstance(kinds, list) and "null" in kinds and "nullable" not in found:
            found["type"] = next(kind for kind in kinds if kind != "null")
            found["nullable"] = True

    def _tuple(self, found: dict[str, Any]) -> None:
        if "prefixItems" in found:
            found["additionalItems"] = found.pop("items", None)
            found["items"] = found.pop("prefixItems")

    def _branches(self, found: dict[str, Any]) -> None:
        if "anyOf" in found:
            found["oneOf"] = found.pop("anyOf")

    def _exclusive(self, found: dict[str, Any]) -> None:
        for exclusive, inclusive in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if exclusive in found and inclusive not in found:
                found[inclusive] = found[exclusive]
                found[exclusive] = True

    def _float(self, found: dict[str, Any]) -> None:
        for name, value in found.items():
            if type(value) is int and name[:3] in ("min", "max"):
                found[name] = float(value)

    def _closed(self, found: dict[str, Any]) -> None:
        if found.get("additionalProperties") is False and not {"allOf", "anyOf", "oneOf"} & found.keys():
            found["unevaluatedProperties"] = found.pop("additionalProperties")
