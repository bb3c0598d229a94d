import pytest

from pipelines.nodes.text.parsers.tools.declared import Declared


def declared(schema):
    return Declared(
        [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"p": schema}}}}]
    )


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "12", "12"),
        ({"type": "string"}, "null", "null"),
        ({"type": "integer"}, " 12\n", 12),
        ({"type": "integer"}, "1.5", "1.5"),
        ({"type": "integer"}, "true", "true"),
        ({"type": "number"}, "3", 3),
        ({"type": "number"}, "1e999", "1e999"),
        ({"type": "boolean"}, "True", True),
        ({"type": "boolean"}, "false", False),
        ({"type": "boolean"}, "yes", "yes"),
        ({"type": "null"}, "None", None),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": ["string", "null"]}, "Paris", "Paris"),
        ({"type": ["string", "integer"]}, "5", 5),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        ({"type": "object"}, "{'a': None}", {"a": None}),
        ({"type": "object"}, "{'a': b''}", "{'a': b''}"),
        ({"type": "object"}, "[1]", "[1]"),
        ({"type": "array"}, "[1, 'x']", [1, "x"]),
        ({"type": "array"}, "[" * 100_000, "[" * 100_000),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "7", 7),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, "7", "7"),
        ({"enum": ["a", "1"]}, "1", "1"),
        ({"enum": [1, 2]}, "1", 1),
        ({"type": "whatever"}, "1", 1),
        ({"type": 3}, "1", 1),
        ({"type": [3, "string"]}, "1", "1"),
        ({"anyOf": 3}, "1", 1),
        ({"anyOf": ["string"]}, "1", 1),
        ({"$ref": "#/x"}, '{"a": 1}', {"a": 1}),
        ({}, "plain", "plain"),
        (None, "[1]", [1]),
    ],
)
def test_a_value_is_read_as_its_schema_says(schema, text, value):
    assert declared(schema).value("f", "p", text) == value


@pytest.mark.parametrize(
    "tools",
    [[], [{"type": "function", "function": {"name": "f"}}], [{"name": "f", "parameters": {"properties": 3}}]],
)
def test_what_is_not_declared_is_read_as_json_where_it_is_some(tools):
    assert Declared(tools).value("f", "p", "1") == 1
    assert Declared(tools).value("f", "p", "one") == "one"


def test_a_tool_may_be_declared_without_its_wrapper():
    tools = [{"name": "f", "parameters": {"properties": {"p": {"type": "string"}}}}]
    assert Declared(tools).value("f", "p", "1") == "1"
