"""Limits for a client's grammar, so that compiling it is fast and does not overflow a thread's stack.

The compiler follows rules and references by recursion: about 1,000 levels of schemas, or 2,400 rules of which
each starts with the next, exceed a stack of 8 MiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pipelines.grammars.schema_rules import target_of

MAX_RULES = 1_500
"""Rules, and opening brackets in them."""
MAX_LEVELS = 1_000
"""Levels of JSON below references, summed over all references, each followed once."""
MAX_SCHEMA_DEPTH = 64
"""vLLM's limit for the nesting of JSON."""
MAX_DIVISOR = 10_000
"""The digits of a `multipleOf` without zeros at its ends: the automaton has a state for each remainder."""

STEP = re.compile(r"\w\s*:|[(\[{]")
DIVISOR = re.compile(r'"multipleOf"\s*:\s*([0-9.]+)')


class BoundError(ValueError):
    """A grammar exceeds a limit; the text is for the client."""


def check_text(grammar: str) -> None:
    """Raise BoundError for a grammar in Lark or EBNF that may be too deep.  It may contain schemas."""
    if sum(1 for _ in STEP.finditer(grammar)) > MAX_RULES:
        raise BoundError(f"the grammar has more than {MAX_RULES} rules and brackets")
    for digits in DIVISOR.findall(grammar):
        _check_divisor(digits)


def check_schema(schema: dict[str, Any]) -> None:
    """Raise BoundError for a schema that is too deep or has too large an automaton."""
    depth = _depth(schema)
    if depth > MAX_SCHEMA_DEPTH:
        raise BoundError(f"the JSON schema is nested deeper than {MAX_SCHEMA_DEPTH} levels")
    objects = list(_objects(schema))
    targets = {part["$ref"] for part in objects if isinstance(part.get("$ref"), str)}
    places = [None if target == "#" else target_of(schema, target) for target in targets]
    if sum(depth if place is None else _depth(place) for place in places) > MAX_LEVELS:
        raise BoundError(f"the references of the JSON schema lead through more than {MAX_LEVELS} levels")
    for part in objects:
        divisor = part.get("multipleOf")
        if isinstance(divisor, int | float):
            _check_divisor(format(divisor, "f") if isinstance(divisor, float) else str(divisor))


def _check_divisor(text: str) -> None:
    if len(text) > 40 or int("0" + text.replace(".", "").strip("-0")) > MAX_DIVISOR:
        raise BoundError(f"multipleOf may have the digits of {MAX_DIVISOR} at most, not {text[:40]}")


def _depth(value: Any) -> int:
    """Depth of nested objects and lists; MAX_SCHEMA_DEPTH + 1 when it is larger."""
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
