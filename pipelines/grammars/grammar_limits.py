"""What a client's grammar may be, so that compiling it is quick and goes no deeper than a thread's stack.

The compiler follows rules and references by recursion: about 1,000 levels of schemas, or 2,400 rules of which
each begins the next, are more than 8 MiB of stack hold.  Knows texts and schemas; compiles nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

MAX_RULES = 1_500
"""Rules, and brackets that open within them."""
MAX_LEVELS = 1_000
"""Levels of JSON that lie under references, one after the other, each followed once."""
MAX_SCHEMA_DEPTH = 64
"""vLLM's bound on the nesting of JSON."""
MAX_DIVISOR = 10_000
"""The digits of a `multipleOf`, without zeros at its ends: the automaton has a state for each remainder."""

STEP = re.compile(r"\w\s*:|[(\[{]")
DIVISOR = re.compile(r'"multipleOf"\s*:\s*([0-9.]+)')


class BoundError(ValueError):
    """More than may be compiled; the text is for the client."""


def check_text(grammar: str) -> None:
    """Raise BoundError for a grammar, in Lark or EBNF, that may be too deep.  Schemas may stand in it."""
    if sum(1 for _ in STEP.finditer(grammar)) > MAX_RULES:
        raise BoundError(f"the grammar has more than {MAX_RULES} rules and brackets")
    for digits in DIVISOR.findall(grammar):
        _check_divisor(digits)


def check_schema(schema: dict[str, Any]) -> None:
    """Raise BoundError for a schema that is too deep, or whose automaton would be too large."""
    depth = _depth(schema)
    if depth > MAX_SCHEMA_DEPTH:
        raise BoundError(f"the JSON schema is nested deeper than {MAX_SCHEMA_DEPTH} levels")
    objects = list(_objects(schema))
    targets = {each["$ref"] for each in objects if isinstance(each.get("$ref"), str)}
    places = [_found(schema, target) for target in targets]
    if sum(depth if place is None else _depth(place) for place in places) > MAX_LEVELS:
        raise BoundError(f"the references of the JSON schema lead through more than {MAX_LEVELS} levels")
    for each in objects:
        divisor = each.get("multipleOf")
        if isinstance(divisor, int | float):
            _check_divisor(format(divisor, "f") if isinstance(divisor, float) else str(divisor))


def _check_divisor(text: str) -> None:
    if len(text) > 40 or int("0" + text.replace(".", "").strip("-0")) > MAX_DIVISOR:
        raise BoundError(f"multipleOf may have the digits of {MAX_DIVISOR} at most, not {text[:40]}")


def _depth(value: Any) -> int:
    """Objects and lists in each other, MAX_SCHEMA_DEPTH + 1 where there are more."""
    level, depth = [value], 0
    while level and depth <= MAX_SCHEMA_DEPTH:
        level = [inner for one in level for inner in _inner(one) if isinstance(inner, dict | list)]
        depth += 1
    return depth


def _inner(value: Any) -> Iterator[Any]:
    yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        waiting.extend(_inner(one))
        if isinstance(one, dict):
            yield one


def _found(schema: Any, reference: str) -> Any:
    """What a reference names, None where that cannot be told."""
    found = schema
    keys = reference.removeprefix("#").split("/")[1:]
    for key in keys:
        found = found.get(key.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found if keys else None
