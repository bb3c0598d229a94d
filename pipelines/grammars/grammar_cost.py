"""What a grammar costs before it is compiled: refused, compiled at once, or tried in a process first.

Reads the text that the compiler gets: a grammar in Lark, or a list of such and of JSON schemas.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pipelines.grammars.grammar_limits import BoundError
from pipelines.grammars.lark_rules import UnknownSyntax, lark_rules
from pipelines.grammars.schema_rules import schema_rules
from pipelines.grammars.shortest_words import Rules, is_recursive, reachable, shortest_words

NO_WORD = "no text fits this grammar"
MAX_FORCED = 20_000
"""Characters that a grammar may force at once: each takes the compiler 5 µs, and its states 400 bytes."""
CHEAP_ITEMS = 10_000
"""The most parts that all rules have together: schemas, words, characters of expressions.  50 ms."""
CHEAP_PROPERTIES = 300
"""The most properties of one object: the time grows with their square, and is 25 ms for these."""
CHEAP_DIVISORS = 10_000
"""The sum of all `multipleOf`: 100 ms."""
CHEAP_JOINED = 8
"""Schemas in `allOf`, where they are joined to a product of automata in the worst case."""
PATTERNED = ("pattern", "patternProperties", "multipleOf", "format")


class NoWord(BoundError):
    """No text fits a grammar."""


def check_cost(grammar: str) -> bool:
    """Whether a grammar is cheap: it compiles in a moment, and so does each of its masks.

    Raises BoundError where no text fits the grammar, or where it forces too much text at once.
    """
    grammars = json.loads(grammar)["grammars"] if grammar.startswith("{") else [{"lark_grammar": grammar}]
    rules: Rules = {}
    cheap = True
    for number, part in enumerate(grammars):
        name = f"@{part.get('name', number)}"
        if "json_schema" in part:
            schema_rules(part["json_schema"], rules, name)
            cheap = _is_cheap_schema(part["json_schema"]) and cheap
        else:
            cheap = _read_lark(part, rules, name) and cheap
    _check_words(rules, f"@{grammars[0].get('name', 0)}")
    return cheap and sum(len(items) for some in rules.values() for items in some) <= CHEAP_ITEMS


def _read_lark(grammar: dict[str, Any], rules: Rules, name: str) -> bool:
    """Add the rules of a grammar in Lark; whether it is cheap.  Those that Braid wrote are named `main`."""
    rules[name] = [[(f"{name}:start", 1)]]
    own: Rules = {}
    try:
        has_marks = lark_rules(grammar["lark_grammar"], own, f"{name}:")
    except UnknownSyntax:
        return False
    rules.update(own)
    return grammar.get("name") == "main" or not (
        has_marks or is_recursive(own) or "%json" in grammar["lark_grammar"]
    )


def _check_words(rules: Rules, start: str) -> None:
    lengths = shortest_words(rules)
    if start not in lengths:
        raise NoWord(f"{NO_WORD}: it has no end, or something that must come is impossible")
    for name in reachable(rules, start):
        if (length := lengths.get(name, 0)) > MAX_FORCED:
            raise BoundError(
                f"the grammar forces {min(length, 10**15)} characters at once, counted over its repeats and "
                f"references; at most {MAX_FORCED} are allowed"
            )


def _is_cheap_schema(schema: Any) -> bool:
    objects = list(_objects(schema))
    joined = [schema["allOf"] for schema in objects if isinstance(schema.get("allOf"), list)]
    num_joined = sum(len(some) for some in joined if len(some) > 1)
    if num_joined and any(word in schema for schema in objects for word in PATTERNED):
        return False
    divisors = [schema.get("multipleOf") for schema in objects]
    properties = [schema.get("properties") for schema in objects]
    return (
        num_joined <= CHEAP_JOINED
        and all(len(some) <= CHEAP_PROPERTIES for some in properties if isinstance(some, dict))
        and sum(map(_digits, filter(None, divisors))) <= CHEAP_DIVISORS
        and all(str(schema.get("$ref", "#")).startswith("#") for schema in objects)
    )


def _digits(divisor: Any) -> int:
    text = str(divisor).replace(".", "").strip("-0")
    return int(text) if text.isdecimal() else CHEAP_DIVISORS + 1


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
