"""What the text of a reply must be: each way to say it, one at a time, in words that name the place."""

from __future__ import annotations

import pytest
from one_test import in_one_test

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
TAG = {"type": "structural_tag", "format": {"type": "const_string", "value": "abc"}}
LEGACY = {
    "type": "structural_tag",
    "structures": [{"begin": "<f>", "schema": {"type": "boolean"}, "end": "</f>"}],
    "triggers": ["<f>"],
}
NODE = {"type": "sequence", "elements": [{"type": "const_string", "value": "a"}]}
NAMED = {"name": "x", "description": "d", "strict": True, "schema": SCHEMA}

ASKED = [
    ({"response_format": {"type": "json_object"}}, "json", None, "response_format"),
    (
        {"response_format": {"type": "json_schema", "json_schema": NAMED}},
        "json_schema",
        SCHEMA,
        "response_format",
    ),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
        "json_schema",
        True,
        "response_format",
    ),
    ({"response_format": TAG}, "structural_tag", TAG, "response_format"),
    ({"response_format": LEGACY}, "structural_tag", LEGACY, "response_format"),
    (
        {"response_format": NODE},
        "structural_tag",
        {"type": "structural_tag", "format": NODE},
        "response_format",
    ),
    ({"structured_outputs": {"json": SCHEMA}}, "json_schema", SCHEMA, "structured_outputs.json"),
    (
        {"structured_outputs": {"json": '{"type": "boolean"}'}},
        "json_schema",
        {"type": "boolean"},
        "structured_outputs.json",
    ),
    ({"structured_outputs": {"regex": "[0-9]+"}}, "regex", "[0-9]+", "structured_outputs.regex"),
    ({"structured_outputs": {"choice": ["a", "b"]}}, "choice", ["a", "b"], "structured_outputs.choice"),
    (
        {"structured_outputs": {"grammar": 'root ::= "a"'}},
        "grammar",
        'root ::= "a"',
        "structured_outputs.grammar",
    ),
    (
        {"structured_outputs": {"json_object": True, "regex": None}},
        "json",
        None,
        "structured_outputs.json_object",
    ),
    (
        {"structured_outputs": {"structural_tag": TAG}},
        "structural_tag",
        TAG,
        "structured_outputs.structural_tag",
    ),
    ({"guided_json": SCHEMA}, "json_schema", SCHEMA, "guided_json"),
    ({"guided_regex": "a"}, "regex", "a", "guided_regex"),
    ({"guided_choice": ["a"]}, "choice", ["a"], "guided_choice"),
    ({"guided_grammar": "start: /a/"}, "grammar", "start: /a/", "guided_grammar"),
    (
        {"structural_tag": '{"type": "structural_tag"}'},
        "structural_tag",
        {"type": "structural_tag"},
        "structural_tag",
    ),
    (
        {"response_format": {"type": "json_object", "schema": SCHEMA}},
        "json_schema",
        SCHEMA,
        "response_format",
    ),
    (
        {"response_format": {"type": "json_object", "schema": '{"type": "boolean"}'}},
        "json_schema",
        {"type": "boolean"},
        "response_format",
    ),
    ({"response_format": {"type": "json_object", "schema": {}}}, "json", None, "response_format"),
    ({"response_format": {"type": "json_object", "schema": None}}, "json", None, "response_format"),
    (
        {"response_format": {"type": "json_object", "value": SCHEMA}},
        "json_schema",
        SCHEMA,
        "response_format",
    ),
    (
        {"response_format": {"type": "json_schema", "schema": SCHEMA}},
        "json_schema",
        SCHEMA,
        "response_format",
    ),
    (
        {"response_format": {"type": "json_schema", "schema": False, "json_schema": NAMED}},
        "json_schema",
        SCHEMA,
        "response_format",
    ),
    ({"grammar": 'root ::= "a"'}, "grammar", 'root ::= "a"', "grammar"),
    ({"json_schema": SCHEMA, "grammar": ""}, "json_schema", SCHEMA, "json_schema"),
    ({"json_schema": '{"type": "boolean"}'}, "json_schema", {"type": "boolean"}, "json_schema"),
    ({"ebnf": 'root ::= "a"'}, "grammar", 'root ::= "a"', "ebnf"),
    ({"regex": "[0-9]+", "ebnf": None}, "regex", "[0-9]+", "regex"),
]


@in_one_test("fields, kind, value, where", ASKED)
@in_one_test("ask", ["chat", "complete"])
def test_a_constraint_reaches_the_pipeline(rig, ask, fields, kind, value, where):
    assert getattr(rig, ask)(**fields).status == 200
    found = rig.pipeline.asked.constraint
    assert (found.kind, found.value, found.where) == (kind, None if kind == "json" else value, where)


def test_options_come_along(rig):
    options = {"disable_any_whitespace": True, "whitespace_pattern": " ?"}
    rig.chat(structured_outputs={"json": SCHEMA, **options})
    assert rig.pipeline.asked.constraint.options == options
    rig.chat(guided_json=SCHEMA, guided_whitespace_pattern=" ?")
    assert rig.pipeline.asked.constraint.options == {"whitespace_pattern": " ?"}


@pytest.mark.parametrize("fields", [{}, {"response_format": {"type": "text"}}, {"structured_outputs": None}])
def test_nothing_asked_is_no_constraint(rig, fields):
    assert rig.chat(**fields).status == 200
    assert rig.pipeline.asked.constraint is None


BAD = [
    ({"response_format": {"type": "xml"}}, "response_format.type", "json_schema"),
    ({"response_format": {}}, "response_format.type", "json_schema"),
    (
        {"response_format": {"type": "json_schema"}},
        "response_format",
        "When response_format type is 'json_schema', the 'json_schema' field must be provided.",
    ),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": 5}}},
        "response_format.json_schema.schema",
        "must be a JSON Schema",
    ),
    (
        {"structured_outputs": {"choice": ["a"], "regex": "b"}},
        "structured_outputs",
        "You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice').",
    ),
    (
        {"structured_outputs": {"regex": "a", "grammar": "b"}},
        "structured_outputs.grammar",
        "You can only use one kind of structured outputs constraint but multiple are specified",
    ),
    (
        {"structured_outputs": {}},
        "structured_outputs",
        "You must use one kind of structured outputs constraint but none are specified",
    ),
    ({"structured_outputs": {"json_object": False}}, "structured_outputs", "none are specified"),
    (
        {"response_format": {"type": "json_object", "schema": 5}},
        "response_format.schema",
        "must be a JSON Schema",
    ),
    ({"json_schema": "{"}, "json_schema", "is not valid JSON"),
    ({"grammar": {}}, "grammar", "string"),
    (
        {"grammar": "a", "json_schema": SCHEMA},
        "json_schema",
        "You can only use one kind of structured outputs constraint but multiple are specified: "
        "grammar and json_schema",
    ),
    ({"response_format": {"type": "json_object"}, "grammar": "a"}, "grammar", "multiple are specified"),
    (
        {"structured_outputs": {"choice": []}},
        "structured_outputs.choice",
        "Choice '[]' cannot be an empty list",
    ),
    ({"structured_outputs": {"choice": [1]}}, "structured_outputs.choice", "a list of strings"),
    (
        {"structured_outputs": {"regexp": "a"}},
        "structured_outputs",
        "none are specified",
    ),
    ({"structured_outputs": {"json": "{"}}, "structured_outputs.json", "is not valid JSON"),
    ({"structured_outputs": {"regex": 5}}, "structured_outputs.regex", "must be a string"),
    (
        {"structured_outputs": {"regex": "a", "disable_any_whitespace": 1}},
        "structured_outputs.disable_any_whitespace",
        "true or false",
    ),
    (
        {"guided_regex": "a", "guided_choice": ["b"]},
        "guided_choice",
        "You can only use one kind of guided decoding",
    ),
    (
        {"response_format": {"type": "json_object"}, "structured_outputs": {"choice": ["a"]}},
        "structured_outputs.choice",
        "multiple are specified: response_format and structured_outputs.choice",
    ),
]


@in_one_test("fields, param, message", BAD)
def test_a_bad_constraint_is_named(rig, fields, param, message):
    answer = rig.complete(**fields)
    assert answer.status == 400
    assert (answer.error["param"], message in answer.error["message"]) == (param, True), answer.error


def test_a_forced_tool_goes_with_no_constraint(rig):
    tools = [{"type": "function", "function": {"name": "f"}}]
    named = {"type": "function", "function": {"name": "f"}}
    asked = {"tools": tools, "structured_outputs": {"choice": ["a"]}}
    assert rig.chat(**asked).status == 200
    assert "not both" in rig.chat(**asked, tool_choice=named).error["message"]
