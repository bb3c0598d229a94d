"""Grammars over text as JSON strings have it: what they accept is what the grammar of the text accepts."""

from __future__ import annotations

import json
import random
import re

import pytest
from codex_tools import PATCH_GRAMMAR
from fake_decoder import byte_tokenizer
from llguidance import LLMatcher, LLTokenizer
from random_patches import broken, patch

from pipelines.grammars.compiler import limits
from pipelines.grammars.grammar_cost import check_cost
from pipelines.grammars.grammar_limits import BoundError
from pipelines.grammars.json_regexes import NotHeld, regex_in_json
from pipelines.grammars.json_texts import text_grammar
from pipelines.grammars.leaf_formats import FormatError
from pipelines.grammars.to_lark import lark_grammar_of
from pipelines.nodes.text.parsers.tools.forms import arguments

TOKENIZER = LLTokenizer(byte_tokenizer().to_str())
LIST = """
start: item ("," item)*
item: NAME "=" (QUOTED | "a".."f")
NAME: /[a-z]+/i
QUOTED: /"[^"\\n]*"/
"""
CALLS = 'start: NAME "(" [start ("," start)*] ")"\nNAME: /[a-z]+/\n'
TEXTS = {
    LIST: ["a=b", 'Ab="x\\y",c=d', 'a="', "a=g", 'a="\n"', ""],
    r'start: "\x41BC" "\u0041BC" "\n"': ["ABCABC\n", "ABC", "\u41bcABC\n"],
    CALLS: ["f()", "f(g(),h())", "f(", "f(g)", ""],
    'start: "a\\n" /[^\\x00-\\x1f]*/ "\\t"?': ["a\n", 'a\n"b"\\\t', "a", "a\n\n"],
}
EXPRESSIONS = [
    r"[^]a]b",
    r"\d+",
    r"[^a]{2}",
    r".",
    r"(?s:.)b",
    r'["a-z]+',
    r"\s*x\S",
    r"(?i)a\n",
    r"\W|\\",
    r"a(?:\t|b)*",
    r"\x0a",
]


def accepts(grammar: str, text: str) -> bool:
    matcher = LLMatcher(TOKENIZER, grammar, log_level=0, limits=limits())
    assert not matcher.is_error(), matcher.get_error()
    token_ids = [*TOKENIZER.tokenize_str(text)]
    return matcher.try_consume_tokens(token_ids) == len(token_ids) and matcher.is_accepting()


def plain(lark: str) -> str:
    return json.dumps({"grammars": [{"lark_grammar": lark}]})


def held(syntax: str, definition: str) -> str:
    """The grammar of the arguments of a tool."""
    text_format = {"type": "json_text", "syntax": syntax, "definition": definition}
    return lark_grammar_of(arguments({"name": "f", "text_format": text_format}), {})


def written(text: str) -> str:
    return json.dumps({"input": text}, ensure_ascii=False)


@pytest.mark.parametrize("number", [60, pytest.param(500, marks=pytest.mark.breadth)])
def test_patches(number):
    grammar, own, chance = held("lark", PATCH_GRAMMAR), plain(PATCH_GRAMMAR), random.Random(number)
    patches = [make(chance) for make in (patch, broken) for _ in range(number // 2)]
    found = [accepts(grammar, written(text)) for text in patches]
    assert all(found[: number // 2])
    assert found == [accepts(own, text) for text in patches]
    assert 0.2 < found[number // 2 :].count(False) / (number // 2) < 1


def between_tags(lark: str, end: str) -> str:
    text = {"type": "tagged_text", "syntax": "lark", "definition": lark, "end": end}
    return lark_grammar_of({"type": "sequence", "elements": [text]}, {})


def test_patches_between_tags():
    end = "\n</parameter>"
    grammar, own, chance = between_tags(PATCH_GRAMMAR, end), plain(PATCH_GRAMMAR), random.Random(7)
    patches = [make(chance) for make in (patch, broken) for _ in range(30)]
    found = [accepts(grammar, text + end) for text in patches]
    assert found == [accepts(own, text) for text in patches]
    assert 0.2 < found[30:].count(False) / 30 < 1


def test_a_text_of_anything_ends_at_the_first_mark():
    grammar = between_tags("start: /(.|\\n)*/", "</p>")
    assert accepts(grammar, "a<p>\n</q></p>")
    assert not accepts(grammar, "a</p>b</p>")
    with pytest.raises(FormatError, match="between tags"):
        between_tags(CALLS, "</p>")


@pytest.mark.parametrize("lark", TEXTS)
def test_other_grammars(lark):
    grammar = held("lark", lark)
    found = [accepts(grammar, written(text)) for text in TEXTS[lark]]
    assert found == [accepts(plain(lark), text) for text in TEXTS[lark]]
    assert {*found} == {True, False}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(expression):
    """Each of these characters, alone and behind some of them."""
    characters = 'aAb1 \n\t"\\é\x00/'
    texts = [a + b for a in ["", *characters[::2]] for b in characters]
    grammar, matches = held("regex", expression), re.compile(expression, re.ASCII).fullmatch
    assert [text for text in texts if accepts(grammar, written(text))] == [
        text for text in texts if matches(text)
    ]


def test_other_forms_of_json_are_no_text():
    grammar = held("regex", r"(?s:.)*")
    for text in ('{"input":"a"}', '{ "input": "a" }'):
        assert accepts(grammar, text)
    for text in (
        '{"text": "a"}',
        '{"input": "\\x"}',
        '{"input": "a',
        '{"input": "a", "b": 1}',
        '{"input": 1}',
    ):
        assert not accepts(grammar, text)


@pytest.mark.parametrize(
    ("syntax", "definition", "error"),
    [
        ("lark", 'start: "(" start ")" | /"/', NotHeld),
        ("lark", 'start: "a" "b"\n%ignore /\\s+/', NotHeld),
        ("lark", 'start: %json {"type": "object"}', NotHeld),
        ("lark", "start: <|tool|>", NotHeld),
        ("lark", "start: /a/ & /b/", NotHeld),
        ("lark", 'start: "\\n"i', NotHeld),
        ("lark", "start: ?!", FormatError),
        ("regex", r"\p{L}", NotHeld),
        ("regex", r"[a-z&&[^b]]", NotHeld),
        ("regex", "(?x) a", NotHeld),
    ],
)
def test_what_has_no_such_form(syntax, definition, error):
    with pytest.raises(error):
        text_grammar(syntax, definition)


def test_expressions_without_escapes_stay():
    assert regex_in_json(r"[a-z_]{2,3}(?:é|\d)+") == r"[a-z_]{2,3}(?:é|\d)+"


@pytest.mark.parametrize(
    ("syntax", "definition"),
    [
        ("lark", r'start: "\x{ffffff}"'),
        ("lark", r'start: "\ud800"'),
        ("lark", 'start: A\nA: "a"\n' + "%ignore " * 3000 + "A"),
        ("lark", "start: /" + "[" * 700 + "a" * 100_000 + "/"),
        ("regex", "[" * 100_000),
        ("regex", r"\p{" * 30_000),
        ("regex", "a" * (1 << 18)),
    ],
    ids=["no character", "a surrogate", "nested directives", "open classes", "brackets", "names", "long"],
)
def test_what_is_no_grammar_is_refused_at_once(syntax, definition):
    with pytest.raises((FormatError, NotHeld, BoundError)):
        text_grammar(syntax, definition)


def test_spaces_in_a_count_are_read_once():
    assert text_grammar("regex", "a{" + " " * 20_000 + "x")


def test_what_follows_an_escape_counts_as_forced():
    with pytest.raises(BoundError, match="forces"):
        check_cost('start: "' + r"\x41" + "a" * 30_000 + '"')
