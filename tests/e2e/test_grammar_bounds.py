"""Constraints that cost too much or that no text fits: a 400 in time, while others are answered."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from breadth import after
from closed_clients import closed_later
from openai import OpenAI
from patience import PATIENCE_S

MODEL = "braid-demo"
ASKED = [{"role": "user", "content": "What is the weather in Oslo?"}]


def schema(value):
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": value}}}


def regex(pattern):
    return {"extra_body": {"structured_outputs": {"regex": pattern}}}


def grammar(text):
    return {"extra_body": {"structured_outputs": {"grammar": text}}}


def doubled(levels):
    pairs = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(levels)}
    leaf = {f"d{levels}": {"type": "string", "pattern": "a+"}}
    return {"$ref": "#/$defs/d0", "$defs": {**pairs, **leaf}}


LOOP = {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}, "required": ["a"]}
REFUSED = {
    "divisors": (
        schema({"allOf": [{"type": "integer", "multipleOf": 9973}, {"multipleOf": 9883}]}),
        "response",
    ),
    "repeats": (regex("((a{100}){100}){90}"), "structured_outputs"),
    "a long expression": (regex("a" * 200_000), "structured_outputs"),
    "leaves": (schema(doubled(22)), "response"),
    "itself": (schema({"$ref": "#"}), "response"),
    "a rule": (grammar('root ::= "a" root'), "structured_outputs"),
    "a tool": (
        {
            "tools": [{"type": "function", "function": {"name": "f", "parameters": LOOP}}],
            "tool_choice": "required",
        },
        "tools",
    ),
}
FOLLOWED = {
    "a schema": schema({"type": "object", "properties": {"a": {"enum": ["b"]}}, "required": ["a"]}),
    "an expression": regex("[ab]{3}"),
    "a recursive rule": grammar('root ::= "x" | "(" root ")"'),
    "nothing": {},
}


def ask(client, given, **more):
    return client.chat.completions.create(model=MODEL, messages=ASKED, max_tokens=24, **given, **more)


@pytest.mark.parametrize("streams", after(1, [True, False]))
def test_what_costs_too_much_is_refused_while_others_are_answered(demo, streams):
    client = closed_later(
        OpenAI(base_url=demo.url + "/v1", api_key="none", max_retries=0, timeout=PATIENCE_S)
    )

    def refused(name):
        refused_body, field = REFUSED[name]
        with pytest.raises(openai.BadRequestError) as error:
            ask(client, refused_body, stream=streams)
        assert field in error.value.param, name

    with ThreadPoolExecutor(4) as threads:
        attacks = [threads.submit(refused, name) for name in REFUSED]
        for asked in FOLLOWED.values():
            assert ask(client, asked).choices[0].finish_reason in ("stop", "length")
        for attack in attacks:
            attack.result()
