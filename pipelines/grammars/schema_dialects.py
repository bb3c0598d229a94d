"""The keywords of one object of a JSON Schema, of any dialect, in the words of 2020-12."""

from __future__ import annotations

import math
from typing import Any

from pipelines.grammars.schema_keywords import (
    KEYWORDS,
    LEAST,
    MOST,
    NUMBERS,
    REFERENCES,
    Schema,
    SchemaError,
    says_nothing,
)

LARGEST = 2**63 - 1024
"""The largest bound of a number that the compiler takes; as float64 it is exact."""
BOUNDLESS = 1e300
"""From here a bound of a number is what a serializer writes for none."""
APPLICATORS = {
    *REFERENCES,
    "allOf",
    "anyOf",
    "contains",
    "dependentSchemas",
    "else",
    "if",
    "not",
    "oneOf",
    "then",
}
"""Keywords whose schemas evaluate properties or items of the same value."""


def constraining(schema: Schema) -> Schema:
    """The keywords that constrain a value; the schemas in them are as they came.

    Null is taken for an absent keyword, as serializers write it.  Values of a wrong type stay, for the
    compiler to refuse.  Raises SchemaError for a number that is not finite.
    """
    present = {name: value for name, value in schema.items() if value is not None or name == "const"}
    known = _telling({name: _value(name, value) for name, value in present.items() if name in KEYWORDS})
    for change in CHANGES:
        change(known)
    return _telling(known)


def _telling(found: Schema) -> Schema:
    return {name: value for name, value in found.items() if not says_nothing(name, value)}


def _value(name: str, value: Any) -> Any:
    """A number that is whole as an integer, however it was written."""
    if name == "multipleOf" and (isinstance(value, bool) or value == math.inf):
        raise SchemaError("'multipleOf' of a JSON schema must be a finite number")
    if name not in WHOLE or not isinstance(value, float):
        return value
    if math.isnan(value):
        raise SchemaError(f"{name!r} of a JSON schema must be a finite number")
    return int(value) if value.is_integer() and (name not in NUMBERS or abs(value) < EXACT) else value


WHOLE = LEAST | MOST | NUMBERS
EXACT = 2**53
"""Below it float64 has every integer."""


def _nullable(found: Schema) -> None:
    """OpenAPI 3.0: null beside the declared type."""
    kind = found.get("type")
    if found.pop("nullable", False) is True and isinstance(kind, str) and kind != "null":
        found["type"] = [kind, "null"]


def _no_const(found: Schema) -> None:
    """The null of a serializer is no constant where the declared type has no null."""
    kinds = found.get("type", "null")
    if found.get("const", "") is None and "null" not in (kinds if isinstance(kinds, list) else [kinds]):
        del found["const"]


def _tuple(found: Schema) -> None:
    """Before 2020-12 a list of `items` is what `prefixItems` is now, and `additionalItems` what follows."""
    others = found.pop("additionalItems", None)
    if isinstance(found.get("items"), list):
        found["prefixItems"] = found.pop("items")
        if others is not None:
            found["items"] = others


def _lonely(found: Schema) -> None:
    """Keywords that say nothing without another, or beside it."""
    if found.get("minContains") == 0 and "maxContains" not in found:
        found.pop("contains", None)
    if "contains" not in found:
        found.pop("minContains", None)
        found.pop("maxContains", None)
    if "if" not in found or not {"then", "else"} & found.keys():
        for name in ("if", "then", "else"):
            found.pop(name, None)


def _unevaluated(found: Schema) -> None:
    """Unevaluated members are the additional ones, where no other schema evaluates any."""
    if APPLICATORS & found.keys():
        return
    for name, additional in UNEVALUATED.items():
        if name in found:
            found.setdefault(additional, found.pop(name))


UNEVALUATED = {"unevaluatedProperties": "additionalProperties", "unevaluatedItems": "items"}


def _one_of(found: Schema) -> None:
    """Any of the branches: where these exclude each other that is the same."""
    branches = found.pop("oneOf", None)
    if branches is None:
        return
    if "anyOf" not in found:
        found["anyOf"] = branches
    elif isinstance(found.setdefault("allOf", []), list):
        found["allOf"] = [*found["allOf"], {"anyOf": branches}]


def _property_names(schema: Schema) -> None:
    """A pattern or a list of names is what `patternProperties` or `properties` alone would allow."""
    names = schema.get("propertyNames")
    if not isinstance(names, dict) or {"properties", "patternProperties"} & schema.keys():
        return
    others = schema.get("additionalProperties", True)
    pattern, listed = _pattern_of(names), names.get("enum")
    if pattern is not None:
        schema["patternProperties"] = {pattern: others}
    elif isinstance(listed, list) and _says_only(names, "enum"):
        schema["properties"] = {name: others for name in listed if isinstance(name, str)}
    else:
        return
    del schema["propertyNames"]
    schema["additionalProperties"] = False


def _pattern_of(names: Schema) -> str | None:
    """The pattern of all names, where a schema of names says no more than a pattern or lengths."""
    if isinstance(names.get("pattern"), str) and _says_only(names, "pattern"):
        return str(names["pattern"])
    lengths = names.get("minLength", 0), names.get("maxLength", "")
    if all(length == "" or type(length) is int for length in lengths) and _says_only(names, *LENGTHS):
        return f"^[\\s\\S]{{{lengths[0]},{lengths[1]}}}$"
    return None


LENGTHS = ("minLength", "maxLength")


def _says_only(names: Schema, *keywords: str) -> bool:
    return KEYWORDS & names.keys() <= {*keywords, "type"} and names.get("type", "string") == "string"


def _bounds(found: Schema) -> None:
    for exclusive, inclusive, sign in BOUNDS:
        if isinstance(found.get(exclusive), bool) and found.pop(exclusive) and inclusive in found:
            found[exclusive] = found.pop(inclusive)  # draft 4
        for name in (exclusive, inclusive):
            _bound(found, name, inclusive, sign)


BOUNDS = (("exclusiveMinimum", "minimum", -1), ("exclusiveMaximum", "maximum", 1))


def _bound(found: Schema, name: str, inclusive: str, sign: int) -> None:
    """A bound beyond the compiler's is the compiler's, which is stricter; one beyond all numbers is none."""
    bound = found.get(name)
    if isinstance(bound, bool) or not isinstance(bound, int | float):
        return
    if bound * sign >= BOUNDLESS:
        del found[name]
    elif bound * sign > LARGEST:
        del found[name]
        found.setdefault(inclusive, LARGEST * sign)


CHANGES = (_nullable, _no_const, _tuple, _lonely, _unevaluated, _one_of, _property_names, _bounds)
"""Each replaces keywords of an object, in this order."""
