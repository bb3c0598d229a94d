"""The keywords of JSON Schema, drafts 4 to 2020-12 and OpenAPI 3.0, by what stands in them.

A keyword that is in no table here is an annotation: it says nothing about which values are valid.
"""

from __future__ import annotations

import re
from typing import Any

Schema = dict[str, Any]


class SchemaError(ValueError):
    """A schema says what no grammar can hold; the text is for the client."""


ONE_SCHEMA = {
    *("additionalItems", "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames"),
    *("then", "unevaluatedItems", "unevaluatedProperties"),
}
SCHEMA_LISTS = {"allOf", "anyOf", "oneOf", "prefixItems"}
SCHEMA_MAPS = {"dependencies", "dependentSchemas", "patternProperties", "properties"}
LEAST = {"minContains", "minItems", "minLength", "minProperties"}
MOST = {"maxContains", "maxItems", "maxLength", "maxProperties"}
NUMBERS = {"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"}
TEXTS = {"format", "pattern"}
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
OTHERS = {"const", "dependentRequired", "enum", "nullable", "required", "type", "uniqueItems"}
KEYWORDS = {
    *(ONE_SCHEMA | SCHEMA_LISTS | SCHEMA_MAPS | LEAST | MOST | NUMBERS | TEXTS | OTHERS),
    *REFERENCES,
}

NO_GRAMMAR = {
    *("contains", "dependencies", "dependentRequired", "dependentSchemas", "else", "if", "maxContains"),
    *("minContains", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
    "uniqueItems",
}
"""Keywords that the compiler has no grammar for."""
SELDOM_GRAMMAR = {"maxProperties", "minProperties", "pattern", "patternProperties"}
"""Keywords that it has a grammar for in some schemas."""
NEVER_REGULAR = re.compile(r"(?:[^\\]|^)(?:\\\\)*(?:\(\?<?[=!]|\\[bBk1-9])")
"""Lookarounds, word borders and references to groups, in a pattern."""

FORMATS = {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"}
"""Formats that are held; others are annotations, as JSON Schema has it."""
LARGEST_COUNT = 2**31 - 1
"""No text or list has more; as most, a larger count is no bound."""
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "dependencies": ({},),
    "dependentRequired": ({},),
    "dependentSchemas": ({},),
    "not": (False,),
    "propertyNames": (True, {}, {"type": "string"}),
    "unevaluatedItems": (True, {}),
    "unevaluatedProperties": (True, {}),
    "uniqueItems": (False,),
}
"""Keyword → values with which it excludes nothing."""


def says_nothing(name: str, value: Any) -> bool:
    """Whether a keyword with this value excludes nothing."""
    if name == "format":
        return isinstance(value, str) and value not in FORMATS
    if name in MOST:
        return type(value) is int and value > LARGEST_COUNT
    if name in ONE_SCHEMA and isinstance(value, dict):
        value = {inner: value[inner] for inner in value if inner in KEYWORDS}
    return any(type(value) is type(one) and value == one for one in NEUTRAL.get(name, ()))


def may_be_held(name: str, value: Any) -> bool:
    """Whether a keyword of `SELDOM_GRAMMAR` is a pattern that the compiler may have a grammar for."""
    patterns = [value] if name == "pattern" else value if name == "patternProperties" else None
    if not isinstance(patterns, list | dict):
        return False
    return not any(isinstance(each, str) and NEVER_REGULAR.search(each) for each in patterns)
