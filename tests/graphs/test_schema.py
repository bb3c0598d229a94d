"""The JSON Schema for editors: walked by a small validator of just the keywords that it uses."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import toys

from graphs.read import read
from graphs.schema import schema

SCHEMA = schema(toys.NODE_TYPES, toys.TASKS)

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "null": type(None),
}


def valid(rule: Any, value: Any) -> bool:
    """Whether `value` is valid by `rule`, for the keywords of draft 2020-12 that the schema uses."""
    if isinstance(rule, bool):
        return rule
    return all(KEYWORDS[key](part, value, rule) for key, part in rule.items() if key in KEYWORDS)


def _type(name: str, value: Any, _: Any) -> bool:
    return isinstance(value, TYPES[name]) and not (isinstance(value, bool) and name in ("integer", "number"))


def _additional(rule: Any, value: Any, around: Any) -> bool:
    named = around.get("properties", {})
    return not isinstance(value, dict) or all(
        valid(rule, each) for key, each in value.items() if key not in named
    )


KEYWORDS = {
    "$ref": lambda ref, value, _: valid(SCHEMA["$defs"][ref.removeprefix("#/$defs/")], value),
    "type": _type,
    "const": lambda want, value, _: want == value,
    "enum": lambda words, value, _: value in words,
    "pattern": lambda text, value, _: not isinstance(value, str) or bool(re.search(text, value)),
    "required": lambda names, value, _: not isinstance(value, dict) or set(names) <= set(value),
    "properties": lambda rules, value, _: (
        not isinstance(value, dict)
        or all(valid(rules[key], each) for key, each in value.items() if key in rules)
    ),
    "additionalProperties": _additional,
    "propertyNames": lambda rule, value, _: (
        not isinstance(value, dict) or all(valid(rule, key) for key in value)
    ),
    "minProperties": lambda count, value, _: not isinstance(value, dict) or len(value) >= count,
    "items": lambda rule, value, _: not isinstance(value, list) or all(valid(rule, each) for each in value),
    "minimum": lambda least, value, _: value >= least,
    "anyOf": lambda rules, value, _: any(valid(rule, value) for rule in rules),
    "oneOf": lambda rules, value, _: sum(valid(rule, value) for rule in rules) == 1,
    "not": lambda rule, value, _: not valid(rule, value),
}
ANNOTATIONS = {"$schema", "$defs", "title", "description", "default", "format"}


def accepts(text: str) -> bool:
    document = read(text)
    assert not document.problems
    return valid(SCHEMA, document.data)


def test_only_known_keywords_are_used():
    def keywords(rule: Any) -> set[str]:
        if not isinstance(rule, dict):
            return set()
        names = set(rule)
        for key in ("properties", "$defs"):
            for branch in rule.get(key, {}).values():
                names |= keywords(branch)
        for key in ("items", "additionalProperties", "propertyNames", "not"):
            names |= keywords(rule.get(key))
        for key in ("anyOf", "oneOf"):
            for branch in rule.get(key, []):
                names |= keywords(branch)
        return names

    assert keywords(SCHEMA) <= {*KEYWORDS, *ANNOTATIONS}


def test_it_is_json():
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


def test_every_reference_leads_somewhere():
    refs = set(re.findall(r'"#/\$defs/([^"]+)"', json.dumps(SCHEMA)))
    assert refs <= set(SCHEMA["$defs"])


def test_a_good_graph():
    assert accepts(toys.CHAT)


def test_a_named_input():
    assert accepts(toys.CHAT.replace("from: prompt", "from: {text: prompt}"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("version: 1", "version: 2"),
        ("version: 1\n", ""),
        ("task: chat", "task: chats"),
        ("version: 1", "version: 1\nnote: x"),
        ("type: tokenize", "type: tokenise"),
        ("type: detokenize, ", ""),
        ("max_sequences", "max_sequence"),
        ("max_sequences: 128", "max_sequences: many"),
        ("memory_gb: 4", "memory_bg: 4"),
        ("device: cpu", "device: tpu"),
        (", tokenizer: model/tokenizer.json", ""),
        ("from: prompt", "from: {txt: prompt}"),
        ("from: prompt", "from: [prompt]"),
        ("from: prompt", "from: a b"),
        ("reply: {", "my-reply: {"),
        ("reply: {", "request: {"),
        ("type: sampler", "type: detokenize"),
        ("{type: detokenize, ", "{type: sampler, "),
        ("{type: detokenize, ", "{type: detokenize, body: {}, "),
        ("body:", "boby:"),
    ],
)
def test_a_bad_graph(old, new):
    assert old in toys.CHAT
    assert not accepts(toys.CHAT.replace(old, new))


def test_descriptions_are_the_first_paragraph_of_the_docstring():
    assert SCHEMA["$defs"]["type.chat_template"]["description"] == "Renders the conversation."


def test_paths_are_marked():
    assert SCHEMA["$defs"]["type.tokenize"]["properties"]["tokenizer"]["format"] == "path"


def test_nested_settings_of_two_types_do_not_meet():
    assert "type.scheduler.Cache" in SCHEMA["$defs"]
    assert "type.model.Part" in SCHEMA["$defs"]


def test_inputs_that_depend_on_settings_are_open():
    assert accepts(
        "version: 1\ntask: chat\nnodes:\n  a: {type: graph, graph: b, from: {anything: request}}\n"
    )
