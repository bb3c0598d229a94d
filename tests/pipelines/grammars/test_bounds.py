"""Grammars that would take too long to compile, or more stack than there is, are refused in time."""

from __future__ import annotations

import pytest
from guide_rig import tokens
from llguidance import LLMatcher
from patience import least_cpu_s

from pipelines.base.errors import RequestError
from pipelines.grammars.compiler import limits
from pipelines.grammars.grammar_text import grammar_of_format


def schema(value):
    return {"type": "json_schema", "json_schema": value}


def grammar(text):
    return {"type": "grammar", "grammar": text}


def lark(num_rules, body='"x" {next} | "y"'):
    rules = [f"r{i}: " + body.format(next=f"r{i + 1}") for i in range(num_rules)]
    return grammar("\n".join(["start: r0", *rules, f'r{num_rules}: "z"']))


def references(count, **body):
    """Definitions of which each holds the next."""
    inner = {f"n{i}": nested(body["levels"], {"$ref": f"#/$defs/n{i + 1}"}) for i in range(count)}
    return schema({"$ref": "#/$defs/n0", "$defs": {**inner, f"n{count}": {"type": "integer"}}})


def nested(levels, value):
    for _ in range(levels):
        value = {"items": value, "type": "array"}
    return value


TOO_MUCH = {
    "rules": lark(5000),
    "terminals": grammar(
        "start: T0\n" + "\n".join(f'T{i}: "x" T{i + 1}' for i in range(30_000)) + '\nT30000: "z"'
    ),
    "brackets": lark(300, "(" * 20 + '"x" {next} | "y"' + ")" * 20),
    "EBNF": grammar("root ::= r0\n" + "\n".join(f'r{i} ::= "x" r{i + 1} | "y"' for i in range(5000))),
    "references": references(5000, levels=0),
    "nested references": references(60, levels=50),
    "references in a grammar": grammar("start: %json " + str(references(5000, levels=0)).replace("'", '"')),
    "a divisor": schema({"type": "integer", "multipleOf": 999_983}),
    "a fine divisor": schema({"type": "number", "multipleOf": 0.99983}),
    "a divisor in a grammar": grammar('start: %json {"type": "integer", "multipleOf": 999983}'),
}
ENOUGH = {
    "rules": lark(1200),
    "references": references(300, levels=1),
    "a divisor": schema({"type": "integer", "multipleOf": 3_600_000}),
    "a fine divisor": schema({"type": "number", "multipleOf": 0.01}),
    "a loop": schema({"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#"}}}}),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_is_too_much_is_refused_at_once(name):
    def refused():
        with pytest.raises(RequestError, match="more than|may have"):
            grammar_of_format(TOO_MUCH[name], "f")

    assert least_cpu_s(refused, 1) < 1


@pytest.mark.parametrize("name", ENOUGH)
def test_what_is_large_is_compiled(name):
    matcher = LLMatcher(
        tokens().tokenizer, grammar_of_format(ENOUGH[name], "f"), log_level=0, limits=limits()
    )
    assert not matcher.is_error(), matcher.get_error()
