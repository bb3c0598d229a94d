"""Schemas as drafts 4 to 2020-12, OpenAPI 3.0 and serializers write them: what they mean, and what is refused."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from guide_rig import grammar, schema, tokens
from llguidance import LLMatcher

from pipelines.base.errors import RequestError
from pipelines.grammars.compiler import limits
from pipelines.grammars.normal_schema import loose_schema, normal_schema
from pipelines.grammars.schema_dialects import LARGEST
from pipelines.grammars.schema_keywords import (
    FORMATS,
    KEYWORDS,
    LEAST,
    MOST,
    NO_GRAMMAR,
    NUMBERS,
    ONE_SCHEMA,
    REFERENCES,
    SCHEMA_LISTS,
    SCHEMA_MAPS,
)

INT64 = 2**63


def takes(value, instance) -> bool:
    matcher = LLMatcher(tokens().tokenizer, schema(value), log_level=0, limits=limits())
    assert not matcher.is_error(), matcher.get_error()
    text = json.dumps(instance, ensure_ascii=False)
    return matcher.try_consume_tokens(ids := tokens().spell(text)) == len(ids) and matcher.is_accepting()


def refers(reference, **where):
    return {
        "type": "object",
        "properties": {"a": {"$ref": reference}},
        "additionalProperties": False,
        **where,
    }


def text(**more):
    return {"type": "string", **more}


A_STRING = ([{"a": "x"}], [{"a": 1}])
MEANINGS = [
    # formats: known ones are held, others say nothing, as all of numbers
    (text(format="date"), ["2026-01-31"], ["2026-31-01", "x"]),
    *((text(format=name), ["x"], [1]) for name in ("password", "binary", "uuid4", "int64", "email-list", "")),
    ({"type": "integer", "format": "int64"}, [5], ["5"]),
    ({"type": "number", "format": "double"}, [5.5], ["5"]),
    ({"anyOf": [text(format="path"), {"type": "null"}]}, ["/a", None], [1]),
    # numbers as serializers write them
    (text(maxLength=2.0), ["ab"], ["abc"]),
    ({"type": "array", "minItems": 1.0, "maxItems": 2.0}, [[1], [1, 2]], [[], [1, 2, 3]]),
    *((text(maxLength=most), ["", "x"], [1]) for most in (2**31, 2**32, INT64 - 1, 1e300, None)),
    ({"type": "array", "maxItems": INT64 - 1}, [[], [1]], [{}]),
    ({"type": "integer", "minimum": -INT64, "maximum": INT64 - 1}, [-5, 0, 10**18], [5.5, 10**19]),
    ({"type": "integer", "minimum": 0, "maximum": 2 * INT64 - 1}, [0, 10**18], [-1]),
    ({"type": "integer", "exclusiveMinimum": -1e19, "exclusiveMaximum": 1e19}, [-5, 10**18], [5.5]),
    (
        {"type": "number", "minimum": -1.7976931348623157e308, "maximum": 1.7976931348623157e308},
        [-1e30, 2],
        [""],
    ),
    ({"type": "integer", "minimum": float("-inf"), "maximum": float("inf")}, [7], ["7"]),
    # draft 4
    ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, [4], [3]),
    ({"type": "integer", "maximum": 3, "exclusiveMaximum": False}, [3], [4]),
    ({"type": "integer", "exclusiveMinimum": True}, [-3], ["x"]),
    (refers("#/definitions/n", definitions={"n": text()}), *A_STRING),
    (refers("#n", definitions={"n": {"id": "#n", **text()}}), *A_STRING),
    # tuples
    (
        {"type": "array", "items": [text(), {"type": "null"}], "additionalItems": False},
        [["a", None], ["a"]],
        [[None], ["a", None, 1]],
    ),
    ({"type": "array", "items": [text()], "additionalItems": {"type": "null"}}, [["a", None]], [["a", "b"]]),
    ({"type": "array", "items": text(), "additionalItems": False}, [["a", "b"]], [[1]]),
    ({"type": "array", "prefixItems": [text()], "unevaluatedItems": False}, [["a"]], [["a", "b"]]),
    # OpenAPI 3.0
    (text(nullable=True), ["x", None], [1]),
    (text(nullable=False), ["x"], [None]),
    (text(nullable=None), ["x"], [None]),
    ({"type": ["string", "null"], "nullable": True}, ["x", None], [1]),
    ({"type": "object", "discriminator": {"propertyName": "a"}, "xml": {}, "example": 1}, [{}], [[]]),
    (
        refers("#/components/schemas/N", components={"schemas": {"N": text(nullable=True)}}),
        [{"a": None}],
        [{"a": 1}],
    ),
    # references
    *(
        (
            refers(f"#/$defs/{written}", **{"$defs": {name: text(maxLength=3.0)}}),
            [{"a": "xyz"}],
            [{"a": "wxyz"}],
        )
        for name, written in [
            ("Foo[int]", "Foo[int]"),
            ("Foo[int]", "Foo%5Bint%5D"),
            ("日本", "日本"),
            ("日本", "%E6%97%A5%E6%9C%AC"),
            ("a b", "a b"),
            ("a b", "a%20b"),
            ("a/b~c", "a~1b~0c"),
            ("a%20b", "a%20b"),
            ('"{}"|^`\\', '"{}"|^`\\'),
            ("Page<Item>", "Page<Item>"),
            ("größe#1", "größe#1"),
            ("", ""),
        ]
    ),
    (refers("#/x-types/0", **{"x-types": [text()]}), *A_STRING),
    (
        refers(
            "#/properties/b/items/0",
            properties={"a": {"$ref": "#/properties/b/items/0"}, "b": {"items": [text()]}},
        ),
        *A_STRING,
    ),
    (refers("#n", **{"$defs": {"n": {"$anchor": "n", **text()}}}), *A_STRING),
    (refers("n.json", **{"$id": "http://a/b.json", "$defs": {"n": {"$id": "n.json", **text()}}}), *A_STRING),
    (
        refers("#/$defs/n", **{"$id": "http://a/b.json", "$schema": "http://mine", "$defs": {"n": text()}}),
        *A_STRING,
    ),
    (
        {
            "$id": "a",
            "properties": {"b": {"id": "a label", "items": {"$ref": "#/$defs/n"}}},
            "$defs": {"n": text()},
        },
        [{"b": ["x"]}],
        [{"b": [1]}],
    ),
    (refers("#/$defs/n", **{"$defs": {"n": True}}), [{"a": 1}], [{"b": 1}]),
    ({"type": "array", "items": {"$ref": "#"}}, [[[], [[]]]], [[1]]),
    ({"type": "array", "items": {"$recursiveRef": "#"}}, [[[], [[]]]], [[1]]),
    ({"type": "array", "$dynamicAnchor": "t", "items": {"$dynamicRef": "#t"}}, [[[], [[]]]], [[1]]),
    # one of several
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, [1, 1.5], ["x"]),
    ({"oneOf": [text(enum=["auto"]), text()]}, ["auto", "x"], [1]),
    ({"oneOf": [text(), {"type": "integer"}]}, ["x", 1], [None]),
    (
        {
            "oneOf": [
                {"properties": {"a": text()}, "required": ["a"]},
                {"properties": {"b": text()}, "required": ["b"]},
            ]
        },
        [{"a": "x"}, {"b": "x"}, {"a": "x", "b": "y"}],
        [{}],
    ),
    (
        {"oneOf": [{"type": "integer"}, {"type": "number"}], "anyOf": [{"type": "integer"}, text()]},
        [1],
        ["x", 1.5],
    ),
    # names
    (
        {"type": "object", "propertyNames": text(description="a name"), "additionalProperties": text()},
        [{"k": "v"}],
        [{"k": 1}],
    ),
    (
        {
            "type": "object",
            "propertyNames": {"enum": ["a", "b"]},
            "additionalProperties": {"type": "integer"},
        },
        [{"a": 1}],
        [{"c": 1}, {"a": "x"}],
    ),
    ({"type": "object", "propertyNames": {"pattern": "^k"}}, [{"k1": 1}], [{"c": 1}]),
    (
        {"type": "object", "propertyNames": text(minLength=1, maxLength=2)},
        [{"é\n": 1}],
        [{"": 1}, {"abc": 1}],
    ),
    (
        {"type": "object", "properties": {"a": text()}, "unevaluatedProperties": False},
        [{"a": "x"}],
        [{"b": 1}],
    ),
    # what says nothing
    (text(const=None), ["x"], [None]),
    ({"const": None}, [None], ["x"]),
    ({"type": "array", "uniqueItems": False, "contains": {}, "minContains": 0}, [[1, 1]], [1]),
    (
        {"not": False, "if": {"type": "string"}, "else": None, "dependencies": {}, "dependentRequired": {}},
        [1],
        [],
    ),
    ({"then": False, "else": False, "maxContains": 0, "minContains": 5}, [1, [1]], []),
    (
        {"type": "object", "properties": {"a": None}, "additionalProperties": False},
        [{"a": 1}, {}],
        [{"b": 1}],
    ),
    (
        {
            "title": "T",
            "description": "d",
            "default": float("nan"),
            "examples": [1],
            "$comment": "c",
            "x-a": [],
            "readOnly": True,
            "deprecated": True,
            **text(),
        },
        ["x"],
        [1],
    ),
    # names of properties and values are no keywords
    (
        {
            "type": "object",
            "properties": {"enum": text(), "oneOf": text(), "$ref": text()},
            "required": ["$ref"],
        },
        [{"enum": "x", "$ref": "y"}],
        [{"$ref": 1}, {}],
    ),
    (
        {"enum": [{"oneOf": None, "format": "password"}, None]},
        [{"oneOf": None, "format": "password"}, None],
        [{}],
    ),
]


@pytest.mark.parametrize(("value", "good", "bad"), MEANINGS, ids=lambda value: json.dumps(value)[:60])
def test_a_dialect_means_what_its_author_meant(value, good, bad):
    assert [each for each in good if not takes(value, each)] == []
    assert [each for each in bad if takes(value, each)] == []


@pytest.mark.parametrize("name", sorted(KEYWORDS - {"const"}))
def test_a_keyword_that_is_null_is_absent(name):
    assert normal_schema({"type": "object", name: None}) == ({"type": "object"} if name != "type" else {})
    nested = {"type": "object", "properties": {"a": {name: None, "title": None}}}
    assert normal_schema(nested) == {"type": "object", "properties": {"a": {}}}


WRONG = [
    5,
    2.5,
    True,
    "x",
    [],
    [5],
    [None],
    {},
    {"x": 5},
    float("nan"),
    float("inf"),
    10**400,
    -1,
    "",
    "\ud800",
]


@pytest.mark.parametrize("name", sorted(KEYWORDS))
def test_a_value_of_a_wrong_type_is_refused_by_name_or_says_nothing(name):
    """It never fails in another way, whichever keyword stands beside it."""
    for value in WRONG:
        for beside in (
            {},
            {"type": "string"},
            {"type": "object", "properties": {"a": {}}},
            {"items": [True]},
        ):
            for whole in ({**beside, name: value}, {"allOf": [{name: value}], **beside}):
                with suppress(RequestError):
                    schema(whole)


@pytest.mark.parametrize("name", sorted(LEAST | MOST | NUMBERS))
@pytest.mark.parametrize("kind", ["string", "array", "object", "integer", "number", None])
def test_whole_numbers_are_whole_however_they_are_written(name, kind):
    """5.0 is 5; bounds of int32, int64 and float64 are read, as least and as most."""
    beside = {"type": kind} if kind else {}
    assert schema({**beside, name: 5.0}) == schema({**beside, name: 5})
    widest = {"multipleOf": [1e3]}.get(
        name, [-INT64, -(2**31), -1.7e308] if "inimum" in name else [INT64, 2**31, 1.7e308]
    )
    for value in widest if name not in LEAST else [2**31 - 1]:
        schema({**beside, name: value})


def test_the_table_of_formats_is_the_compilers():
    for name in FORMATS | {"idn-email", "iri", "regex", "json-pointer", "uri-reference", "uri-template"}:
        held = LLMatcher.validate_grammar(json.dumps({"grammars": [{"json_schema": text(format=name)}]}))
        assert (not held) == (name in FORMATS), name


def test_the_tables_of_keywords_are_whole():
    places = ONE_SCHEMA | SCHEMA_LISTS | SCHEMA_MAPS
    assert places | NO_GRAMMAR | LEAST | MOST | NUMBERS | set(REFERENCES) <= KEYWORDS


HARD: dict = {
    "contains": {"type": "string"},
    "dependencies": {"a": ["b"]},
    "dependentRequired": {"a": ["b"]},
    "dependentSchemas": {"a": {"required": ["b"]}},
    "not": {"type": "string"},
    "propertyNames": {"maxLength": 3, "pattern": "a"},
    "uniqueItems": True,
}
HARDEST = [
    *({name: value} for name, value in HARD.items()),
    {"if": {"type": "string"}, "then": {"minLength": 2}},
    {"unevaluatedProperties": False, "allOf": [{"properties": {"a": {}}}]},
    {"contains": True, "minContains": 2},
]


@pytest.mark.parametrize("hard", HARDEST, ids=str)
def test_what_has_no_grammar_is_refused_by_name(hard):
    for value in (
        hard,
        {"properties": {"a": {"items": hard}}},
        refers("#/$defs/h", **{"$defs": {"h": hard}}),
    ):
        with pytest.raises(RequestError) as caught:
            schema(value)
        assert any(f'"{name}"' in caught.value.message for name in hard)
        assert "leave them out" in caught.value.message


@pytest.mark.parametrize("hard", HARDEST, ids=str)
def test_the_rest_of_such_a_schema_has_a_grammar(hard):
    found, left_out = loose_schema(
        {"type": "object", "properties": {"a": {"type": "array", "items": text(), **hard}}}
    )
    assert left_out == NO_GRAMMAR & hard.keys()
    assert takes(found, {"a": ["x"]})
    assert not takes(found, {"a": [1]})


@pytest.mark.parametrize(
    "pattern", ["(?=a)b", "a(?!b)", "(?<=a)b", "(?<!a)b", r"\bword", r"(a)\1", r"(?<n>a)\k<n>"]
)
def test_a_pattern_that_is_not_regular_is_left_out_of_the_rest(pattern):
    with pytest.raises(RequestError, match="(?i)grammar error"):
        schema(text(pattern=pattern))
    assert loose_schema(text(pattern=pattern, maxLength=3)) == (text(maxLength=3), {"pattern"})
    names = {"type": "object", "patternProperties": {pattern: text()}}
    assert loose_schema(names) == ({"type": "object"}, {"patternProperties"})


@pytest.mark.parametrize("pattern", [r"\(?=", r"\\d", "(?:a)", "(?i:a)", r"\\\(?!"])
def test_a_regular_pattern_stays(pattern):
    assert loose_schema(text(pattern=pattern))[0] == text(pattern=pattern)


@pytest.mark.parametrize(
    "reference", ["#/nowhere", "http://example.com/x", "#/$defs", "#a", "//[", "#/enum/7", "#/enum/0"]
)
def test_a_reference_to_nothing_is_refused_by_its_text(reference):
    with pytest.raises(RequestError) as caught:
        schema({"properties": {"a": {"$ref": reference}}, "enum": [5]})
    assert reference in caught.value.message


def test_a_schema_is_not_changed_and_the_normal_form_is_its_own():
    value = refers("#/$defs/a b", **{"$defs": {"a b": {"oneOf": [text(), {"$ref": "#"}], "title": "t"}}})
    before = json.dumps(value)
    once = normal_schema(value)
    assert json.dumps(value) == before
    assert schema(once) == schema(normal_schema(once))


def test_every_place_is_written_once():
    """Each of sixty places refers to the next in it; the text stays as long as the schema."""
    value: dict = {"enum": ["x" * 1_000]}
    for _ in range(25):
        value = {"properties": {"a": value}, "allOf": []}
    path = "#"
    value["$defs"] = {}
    for i in range(24):
        path += "/properties/a"
        value["$defs"][f"d{i}"] = {"$ref": path}
        value["allOf"].append({"properties": {f"n{i}": {"$ref": path}}})
    assert len(json.dumps(normal_schema(value))) < 2 * len(json.dumps(value))


def test_a_schema_for_many_names_is_written_once():
    others = {"type": "array", "items": {"enum": ["x" * 10_000]}}
    names = {"enum": [f"name{i}" for i in range(500)]}
    value = {"type": "object", "propertyNames": names, "additionalProperties": others}
    assert len(json.dumps(normal_schema(value))) < 3 * len(json.dumps(value))
    assert takes(value, {"name7": ["x" * 10_000]})
    assert not takes(value, {"name7": [1]})


def test_additional_properties_are_excluded_in_schemas_only():
    value = {
        "properties": {"a": {"enum": [{"properties": {}}]}, "b": {"$ref": "#/$defs/b"}},
        "$defs": {"b": {"properties": {}}},
    }
    found = normal_schema(value, closes=True)
    assert found["properties"]["a"] == {"enum": [{"properties": {}}]}
    assert found["additionalProperties"] is False
    assert found["$defs"]["0"] == {"properties": {}, "additionalProperties": False}


def test_a_large_bound_is_never_wider():
    assert normal_schema({"maximum": 10**19, "minimum": -(10**25)}) == {
        "maximum": LARGEST,
        "minimum": -LARGEST,
    }
    assert normal_schema({"minimum": 10**19}) == {"minimum": 10**19}


def test_other_grammars_stay_as_they_are():
    lark = 'start: %json {"type": "string", "maxLength": 2}'
    assert "maxLength" in grammar({"type": "grammar", "grammar": lark})
