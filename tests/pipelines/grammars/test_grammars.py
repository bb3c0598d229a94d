"""Constraints as grammars: what they accept, and what is refused in whose words."""

from __future__ import annotations

import json

import pytest
from guide_rig import tokens
from llguidance import LLMatcher

from pipelines.base.errors import RequestError
from pipelines.grammars.compiler import limits
from pipelines.grammars.formats import format_of
from pipelines.grammars.grammar_text import MAX_MESSAGE, grammar_of_format
from pipelines.values.tasks import Constraint

SPECIALS = {"<|im_start|>": 2038}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
CALLS = [
    {
        "begin": '<t>{"f":',
        "content": {"type": "json_schema", "json_schema": {"type": "object"}},
        "end": "}</t>",
    },
    {
        "begin": '<t>{"g":',
        "content": {"type": "json_schema", "json_schema": {"type": "boolean"}},
        "end": "}</t>",
    },
]
ONE, OTHER = '<t>{"g":true}</t>', '<t>{"f":{}}</t>'


def grammar_of(kind, value, **options) -> str:
    constraint = Constraint(kind, value, "where", options)
    return grammar_of_format(format_of(constraint), constraint.where, SPECIALS)


def accepts(grammar: str, text: str) -> bool:
    matcher = LLMatcher(tokens().tokenizer, grammar, log_level=0, limits=limits())
    assert not matcher.is_error(), matcher.get_error()
    ids = tokens().spell(text)
    return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()


def tag(kind, **fields):
    return {"type": "structural_tag", "format": {"type": kind, **fields}}


def refused(kind, value, **options) -> str:
    with pytest.raises(RequestError) as caught:
        grammar_of(kind, value, **options)
    assert caught.value.field == "where"
    assert len(caught.value.message) <= MAX_MESSAGE
    assert "\n" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(
    ("kind", "value", "good", "bad"),
    [
        (
            "json",
            None,
            ["{}", '{"a": [1]}'],
            ["1", "[]", '{"a"'],
        ),
        ("json_schema", SCHEMA, ['{"a": 1}', '{"b":2}'], ['{"a": "x"}']),
        ("json_schema", '{"type": "boolean"}', ["true"], ["1"]),
        ("json_schema", True, ["[1]", '"x"'], ["x"]),
        ("regex", "[0-9]{3}-[a-z]{2}", ["044-gh"], ["044-g", "x044-gh"]),
        ("regex", "^a+b$", ["aab"], ["aabc"]),
        ("regex", "a/b\n\\d", ["a/b\n7"], ["a/b"]),
        ("regex", "\\d[\\w-]", ["7a", "7-"], ["٧a", "7é"]),
        ("choice", ["yes", "no", "no way", 'q"\n😀'], ["yes", "no", "no way", 'q"\n😀'], ["n", "yesno"]),
        ("choice", [""], [""], ["x"]),
        ("grammar", 'root ::= "SELECT " ("a" | "b") " FROM t"', ["SELECT a FROM t"], ["SELECT c FROM t"]),
        (
            "grammar",
            "root ::= item+\nitem ::= [a-z\\u00e9] ws # a comment\nws ::= [ \\t]*",
            ["a b", "éx"],
            ["A"],
        ),
        ("grammar", 'root ::= "(" root ")" | "x"{2,3}', ["((xx))", "xxx"], ["((xx)", "x"]),
        ("grammar", 'start: "yes" | "no"', ["yes"], ["y"]),
        ("grammar", '?start: sum\nsum: NUM ("+" NUM)*\nNUM: /[0-9]+/', ["1+22"], ["1+"]),
        ("grammar", '%llguidance {}\nstart: "a" %json {"type": "boolean"}', ["atrue"], ["a"]),
    ],
    ids=str,
)
def test_a_constraint_accepts_what_it_says(kind, value, good, bad):
    grammar = grammar_of(kind, value)
    assert [text for text in good if not accepts(grammar, text)] == []
    assert [text for text in bad if accepts(grammar, text)] == []


@pytest.mark.parametrize(
    ("options", "good", "bad"),
    [
        ({}, '{"a" :\n  1}', '{"a":\n\n1}'),
        ({"disable_any_whitespace": True}, '{"a":1}', '{"a": 1}'),
        ({"whitespace_pattern": "[ ]*"}, '{"a":  1}', '{"a":\n1}'),
        ({"disable_additional_properties": True}, '{"a": 1}', '{"b": 1}'),
    ],
)
def test_options_of_json(options, good, bad):
    grammar = grammar_of("json_schema", SCHEMA, **options)
    assert accepts(grammar, good)
    assert not accepts(grammar, bad)


@pytest.mark.parametrize(
    "text", ['{"a":  1}', '{"a":\t1}', '{  "a": 1}', '{"a": 1\n\n}', '{"a": 1}\n' + " " * 65]
)
def test_white_space_between_tokens_is_one_space_or_one_line(text):
    assert not accepts(grammar_of("json_schema", SCHEMA), text)
    assert accepts(grammar_of("json_schema", SCHEMA), '{\r\n\t"a" : 1\n' + " " * 64 + "}")


def test_additional_properties_stay_where_the_schema_says_so():
    value = {**SCHEMA, "additionalProperties": {"type": "null"}}
    assert accepts(grammar_of("json_schema", value, disable_additional_properties=True), '{"b": null}')


@pytest.mark.parametrize(
    ("value", "good", "bad"),
    [
        (tag("const_string", value="abc"), ["abc"], ["ab", "abcd"]),
        (json.dumps(tag("json_schema", json_schema={"type": "boolean"})), ["true"], ["1"]),
        ({"type": "const_string", "value": "bare"}, ["bare"], ["x"]),
        (tag("any_text"), ["", "what you like\n"], ["<|im_start|>"]),
        (tag("any_text", excludes=["no", "<"]), ["yes"], ["I know", "a<b"]),
        (
            tag(
                "sequence",
                elements=[{"type": "regex", "pattern": "a+"}, {"type": "const_string", "value": "ab"}],
            ),
            ["aab", "aaab"],
            ["ab"],
        ),
        (
            tag("sequence", elements=[{"type": "any_text"}, {"type": "const_string", "value": "END"}]),
            ["END", "EN END"],
            ["EN", "ENDx"],
        ),
        (
            tag(
                "or",
                elements=[
                    {"type": "json_schema", "json_schema": {"type": "null"}},
                    {"type": "regex", "pattern": "x*"},
                ],
            ),
            ["null", "", "xx"],
            ["nullx"],
        ),
        (
            tag("repeat", min=2, max=3, content={"type": "const_string", "value": "ab"}),
            ["abab", "ababab"],
            ["ab"],
        ),
        (
            tag("repeat", content={"type": "json_schema", "json_schema": {"type": "null"}}),
            ["", "nullnull"],
            ["nul"],
        ),
        (tag("optional", content={"type": "const_string", "value": "ab"}), ["", "ab"], ["abab"]),
        (tag("star", content={"type": "const_string", "value": "ab"}), ["", "abab"], ["aba"]),
        (tag("plus", content={"type": "grammar", "grammar": 'root ::= "q" | "r"'}), ["q", "qr"], [""]),
        (
            tag("tag", begin="<|im_start|>x", content={"type": "any_text"}, end=["</a>", "</b>"]),
            ["<|im_start|>xhello</a>", "<|im_start|>x</b>"],
            ["xhello</a>", "<|im_start|>x</a></b>"],
        ),
        (tag("tag", begin="<", content={"type": "regex", "pattern": "a"}, end=""), ["<a"], ["<", "<a>"]),
        (
            {
                "structures": [{"begin": "<f>", "schema": {"type": "boolean"}, "end": "</f>"}],
                "triggers": ["<f"],
            },
            ["", "hi", "hi <f>true</f> x <f>false</f>", "a < b"],
            ["<f", "<fx", "a <f>true"],
        ),
        (
            tag(
                "triggered_tags",
                triggers=["<|im_start|>"],
                tags=[{"begin": "<|im_start|>f", "content": {"type": "regex", "pattern": "[01]"}, "end": ""}],
            ),
            ["hi <|im_start|>f1 x", "<|im_start|>f0", "hi"],
            ["<|im_start|>", "<|im_start|>g"],
        ),
        (
            tag("triggered_tags", triggers=["<t>"], tags=CALLS),
            ["", "hi", ONE, f"h {ONE} x {OTHER}"],
            ["<t>", "<t>{"],
        ),
        (
            tag("triggered_tags", triggers=["<t>"], tags=CALLS, at_least_one=True),
            [ONE, f"{ONE} x {OTHER} y"],
            ["", "hi", f"h {ONE}"],
        ),
        (
            tag("triggered_tags", triggers=["<t>"], tags=CALLS, stop_after_first=True),
            ["", "hi", f"h {ONE}"],
            [f"{ONE} x"],
        ),
        (
            tag("triggered_tags", triggers=["<t>"], tags=CALLS, at_least_one=True, stop_after_first=True),
            [ONE, OTHER],
            ["", f"{ONE}{OTHER}"],
        ),
        (
            tag("tags_with_separator", tags=CALLS, separator=", "),
            ["", ONE, f"{ONE}, {OTHER}"],
            [f"{ONE}{OTHER}", f"{ONE}, "],
        ),
        (
            tag("tags_with_separator", tags=CALLS, separator="\n", at_least_one=True, stop_after_first=True),
            [ONE],
            ["", f"{ONE}\n{OTHER}"],
        ),
    ],
)
def test_a_structural_tag_accepts_what_it_says(value, good, bad):
    grammar = grammar_of("structural_tag", value)
    assert [text for text in good if not accepts(grammar, text)] == []
    assert [text for text in bad if accepts(grammar, text)] == []


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("regex", "[", "Grammar error: at 1(8): invalid regex"),
        ("regex", 5, "must be a string"),
        ("json_schema", {"type": "foo"}, "Grammar error: Invalid type: foo"),
        ("json_schema", {"uniqueItems": True}, 'Unimplemented keys: ["uniqueItems"]'),
        ("json_schema", {"uniqueItems": True, "x-guidance": {"lenient": True}}, "Unimplemented keys"),
        ("json_schema", {"type": "string", "format": 5}, "Expected string"),
        ("json_schema", False, "Unsatisfiable"),
        ("json_schema", "{", "no JSON"),
        ("json_schema", 5, "must be an object"),
        ("json_schema", {"$ref": "http://example.com/x"}, "Grammar error"),
        ("grammar", "zzz", "Failed to convert the grammar from GBNF to Lark: Expected ::= at line 1"),
        ("grammar", "root ::= missing", "Rule 'missing' not found"),
        ("grammar", "start: missing", "unknown name"),
        ("grammar", "root ::= " + "(" * 1_400, "Invalid grammar specification"),
        ("grammar", None, "must be a string"),
        ("choice", [], "Choice '[]' cannot be an empty list"),
        ("choice", ["a", 1], "list of strings"),
        ("choice", ["a"] * 10_001, "more than 10000"),
        ("choice", ["\ud800"], "Grammar error"),
        ("choice", ["x" * 2_000_000], "bytes"),
        ("structural_tag", tag("bogus"), 'unknown format type "bogus"'),
        ("structural_tag", tag("const_string", value="a", colour="red"), "unknown field 'colour'"),
        ("structural_tag", tag("const_string"), "must be a string"),
        (
            "structural_tag",
            tag("sequence", elements=[{"type": "any_text"}, {"type": "regex", "pattern": "a"}]),
            "any_text",
        ),
        ("structural_tag", tag("or", elements=[]), "not empty"),
        ("structural_tag", tag("repeat", content={"type": "any_text"}, min=3, max=2), "min <= max"),
        ("structural_tag", tag("triggered_tags", triggers=["<x>"], tags=CALLS), "no trigger begins"),
        ("structural_tag", tag("triggered_tags", triggers=[], tags=CALLS), "triggers"),
        ("structural_tag", {"structures": 5, "triggers": []}, "structures must be"),
        ("structural_tag", {"format": 5}, "must be an object"),
        ("structural_tag", "{", "no JSON"),
        ("structural_tag", 5, "must be an object"),
    ],
)
def test_what_means_nothing_is_refused(kind, value, said):
    assert said in refused(kind, value)


def test_what_is_nested_too_deeply_is_refused():
    schema: dict = {"type": "integer"}
    node: dict = {"type": "any_text"}
    for _ in range(70):
        schema = {"type": "array", "items": schema}
        node = {"type": "optional", "content": node}
    assert "nested" in refused("json_schema", schema)
    assert "nested" in refused("structural_tag", node)


def test_a_pattern_for_no_whitespace_is_refused():
    refused("json", None, disable_any_whitespace=True, whitespace_pattern=" ")
