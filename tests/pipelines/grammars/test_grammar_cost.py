"""What grammars cost, counted before they are compiled, and measured where that does not say."""

from __future__ import annotations

import json

import pytest
from breadth import after
from guide_rig import TOKENIZER
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.base.bounded_processes import BoundedProcesses
from pipelines.base.errors import RequestError
from pipelines.grammars import grammar_text
from pipelines.grammars.grammar_cost import MAX_FORCED, check_cost
from pipelines.grammars.grammar_limits import BoundError
from pipelines.grammars.grammar_text import grammar_of_format
from pipelines.grammars.regex_rules import regex_rules
from pipelines.grammars.shortest_words import is_recursive, shortest_words
from pipelines.grammars.to_lark import lark_grammar_of


def schema(value, **options):
    return {"type": "json_schema", "json_schema": value, **options}


def regex(pattern):
    return {"type": "regex", "pattern": pattern}


def grammar(text):
    return {"type": "grammar", "grammar": text}


def doubled(levels, leaf, keyword="allOf"):
    """A schema whose references lead to 2^levels leaves."""
    pairs = {f"d{i}": {keyword: [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(levels)}
    return schema({"$ref": "#/$defs/d0", "$defs": {**pairs, f"d{levels}": leaf}})


def rows(times, leaf):
    return {"type": "array", "minItems": times, "items": leaf}


NO_WORD = {
    "itself": schema({"$ref": "#"}),
    "a definition": schema({"$ref": "#/$defs/n", "$defs": {"n": {"$ref": "#/$defs/n"}}}),
    "each other": schema(
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    ),
    "allOf": schema({"allOf": [{"$ref": "#"}]}),
    "anyOf": schema({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}),
    "items": schema({"type": "array", "items": {"$ref": "#/items"}, "minItems": 1}),
    "prefix": schema({"type": "array", "prefixItems": [{"$ref": "#"}], "minItems": 1}),
    "a property": schema(
        {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}, "required": ["a"]}
    ),
    "deeper": schema({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}),
    "EBNF": grammar("root ::= root"),
    "EBNF that goes on": grammar('root ::= "a" root'),
    "Lark": grammar('start: start "a"'),
    "Lark in a group": grammar('start: ("a" | "b") (start | other)\nother: start+'),
    "Lark with a schema": grammar('start: "x" %json {"$ref": "#"}'),
    "a class": regex(r"[^\s\S]"),
    "a terminal": grammar('start: "a" B\nB: /[^\\s\\S]/'),
    "a tag": {"type": "tag", "begin": "<f>", "content": schema({"$ref": "#"}), "end": "</f>"},
}
TOO_LONG = {
    "nested repeats": regex("((a{100}){100}){90}"),
    "nested repeats after a choice": regex("[xy]((a{100}){100}){90}"),
    "a long text": regex("a" * (MAX_FORCED + 1)),
    "a pattern": schema({"type": "string", "pattern": "((a{100}){100}){90}"}),
    "rules": grammar("\n".join(["start: r0", *[f"r{i}: r{i + 1} r{i + 1}" for i in range(20)], 'r20: "a"'])),
    "an alternative": grammar('start: "x" | ("y" (("a"{100}){100}){90})'),
    "EBNF": grammar('root ::= (("a"{100}){100}){90}'),
    "leaves": doubled(22, {"type": "string", "pattern": "a+"}),
    "numbers": doubled(22, {"type": "integer"}),
    "nested arrays": schema(rows(1000, rows(1000, {"const": "x"})), disable_any_whitespace=True),
    "a tag": {"type": "repeat", "min": 10_000, "max": 10_000, "content": regex("((a{100}){100})")},
}
HAS_WORDS = {
    "a tree": schema(
        {
            "type": "object",
            "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}},
            "required": ["kids"],
        }
    ),
    "optional": schema({"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}}),
    "a list": schema({"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}, "minItems": 1}]}),
    "arithmetic": grammar('root ::= t ("+" t)*\nt ::= [0-9]+ | "(" root ")"'),
    "alternatives": doubled(20, {"type": "string"}, "anyOf"),
    "long free text": schema({"type": "string", "minLength": 50_000}),
    "many letters": regex("[a-z]{50000}"),
    "a class of all but one": regex("[^a]"),
    "empty": regex("(ab)?"),
    "escapes": regex(r"\d{4}-\d\d-\d\dT\x41\u{1F600}\p{L}+(?i:z)"),
}


@pytest.mark.parametrize("name", NO_WORD)
def test_what_has_no_text_is_refused(name):
    with pytest.raises(RequestError, match="no text fits this grammar") as error:
        grammar_of_format(NO_WORD[name], "f")
    assert error.value.field == "f"


@pytest.mark.parametrize("name", TOO_LONG)
def test_what_forces_too_much_is_refused(name):
    with pytest.raises(RequestError, match=f"at most {MAX_FORCED} are allowed"):
        grammar_of_format(TOO_LONG[name], "f")


@pytest.mark.parametrize("name", HAS_WORDS)
def test_what_has_text_is_taken(name):
    grammar_of_format(HAS_WORDS[name], "f")


@given(st.lists(st.integers(1, 60), min_size=1, max_size=5), st.text("ab", min_size=1, max_size=3))
@settings(deadline=None)
def test_nested_repeats_count_as_their_product(counts, word):
    pattern, length = word, len(word)
    for count in counts:
        pattern, length = f"({pattern}){{{count}}}", length * count
    rules = {}
    regex_rules(pattern, rules, "r")
    assert shortest_words(rules)["r"] == length
    written = lark_grammar_of(regex(pattern), {})
    if length > MAX_FORCED:
        with pytest.raises(BoundError):
            check_cost(written)
    else:
        assert check_cost(written)


references = st.integers(0, 5)
"""Of six definitions."""
bodies = st.one_of(
    st.just({"type": "integer"}),
    st.tuples(st.sampled_from(["allOf", "anyOf", "oneOf"]), st.lists(references, min_size=1, max_size=3)),
    st.tuples(st.sampled_from(["items", "required"]), st.lists(references, min_size=1, max_size=1)),
)


def body(drawn):
    if isinstance(drawn, dict):
        return drawn
    keyword, numbers = drawn
    some = [{"$ref": f"#/$defs/d{number}"} for number in numbers]
    if keyword == "items":
        return {"type": "array", "items": some[0], "minItems": 1}
    if keyword == "required":
        return {"type": "object", "properties": {"a": some[0]}, "required": ["a"]}
    return {keyword: some}


def ends(drawn, number, depth=8):
    """Whether a definition has JSON of at most this depth: six definitions need no more."""
    if isinstance(drawn[number], dict):
        return True
    keyword, numbers = drawn[number]
    some = any if keyword in ("anyOf", "oneOf") else all
    return depth > 0 and some(ends(drawn, each, depth - 1) for each in numbers)


@given(st.lists(bodies, min_size=6, max_size=6))
@settings(deadline=None)
def test_a_schema_has_a_word_where_its_references_end(drawn):
    found = schema({"$ref": "#/$defs/d0", "$defs": {f"d{i}": body(each) for i, each in enumerate(drawn)}})
    written = json.dumps({"grammars": [{"json_schema": found["json_schema"]}]})
    if ends(drawn, 0):
        check_cost(written)
    else:
        with pytest.raises(BoundError, match="no text fits"):
            check_cost(written)


def test_recursion_is_found():
    assert is_recursive({"a": [[("b", 1)]], "b": [[("a", 0)], []]})
    assert not is_recursive({"a": [[("b", 1), ("b", 2)]], "b": [[(1, 1)]], "c": [[("a", 1), ("unknown", 1)]]})


PRODUCT = schema({"allOf": [{"type": "integer", "multipleOf": 9973}, {"multipleOf": 9883}]})
COSTLY = {
    "a product of divisors": PRODUCT,
    "divisors of a property": schema(
        {"allOf": [{"properties": {"a": {"type": "integer", "multipleOf": n}}} for n in (9973, 9967)]}
    ),
    "terminals that intersect": grammar("start: A\nA: /([ab]{1009})*/ & /([ab]{1013})*/ & /([ab]{1019})+/"),
    "forced text of many readings": grammar('start: e{300}\ne: e e | "a"'),
}
NORMAL = {
    "an object": schema(
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
            "required": ["a"],
        }
    ),
    "a pattern": schema({"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"}),
    "one allOf": schema({"allOf": [{"type": "object"}]}),
    "a choice": {"type": "choice", "choices": ["a", "b"]},
    "a regex": regex(r"(a|b)*a(a|b){18}"),
    "a list in EBNF": grammar('root ::= "[" ([0-9]+ ",")* "]"'),
    "tools": {
        "type": "triggered_tags",
        "triggers": ["<f"],
        "tags": [{"type": "tag", "begin": "<f>", "content": schema({"type": "object"}), "end": "</f>"}],
    },
}


@pytest.fixture
def trials(monkeypatch):
    """A process with less time and memory than that of a server."""
    made = BoundedProcesses("pipelines.grammars.grammar_trial", 1, 640 << 20, "try grammars")
    monkeypatch.setattr(grammar_text, "TRIALS", made)
    monkeypatch.setattr(grammar_text, "TRIAL_S", 1.0)
    yield made
    made.close()


@pytest.mark.parametrize("name", after(2, COSTLY))
def test_what_costs_too_much_is_refused(name, trials):
    with pytest.raises(RequestError, match="the grammar costs too much|Grammar error"):
        grammar_of_format(COSTLY[name], "f", tokenizer=TOKENIZER)


def test_after_a_costly_grammar_another_is_tried(trials):
    with pytest.raises(RequestError, match="the grammar costs too much"):
        grammar_of_format(PRODUCT, "f", tokenizer=TOKENIZER)
    grammar_of_format(HAS_WORDS["arithmetic"], "f", tokenizer=TOKENIZER)


@pytest.mark.parametrize("name", NORMAL)
def test_what_is_cheap_needs_no_process(name, monkeypatch):
    monkeypatch.setattr(grammar_text, "TRIALS", None)
    grammar_of_format(NORMAL[name], "f", tokenizer=TOKENIZER)
