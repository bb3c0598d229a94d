"""What a grammar makes a family's models write is what the family's parser reads."""

import json

import pytest
from call_pieces import joined, parse
from every_case import every_case
from llguidance import LLMatcher, LLTokenizer

from pipelines.grammars.grammar_text import grammar_of_format
from pipelines.nodes.text.parsers.tables import TOOLS
from pipelines.nodes.text.parsers.tools import forms
from pipelines.nodes.text.parsers.tools.calls import CallFinder
from pipelines.nodes.text.parsers.tools.forced import PLAIN, ArgumentsOf

FUNCTIONS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("f", "g.h-1")]
ARGUMENTS = ['{"a": "x"}', "{}"]
WANTED = list(zip(["f", "g.h-1"], ARGUMENTS, strict=True))


def written(form, arguments):
    """The text of a format in which each call is made once."""
    kind = form["type"]
    if kind == "const_string":
        return form["value"]
    if kind == "regex":
        return "" if form["pattern"].endswith(")?") else "0"
    if kind == "or":
        return written(form["elements"][0], arguments)
    if kind == "sequence":
        return "".join(written(element, arguments) for element in form["elements"])
    if kind == "tags_with_separator":
        return form["separator"].join(written(tag, arguments) for tag in form["tags"])
    if kind == "tag":
        return form["begin"] + written(form["content"], arguments) + form["end"]
    assert kind == "json_schema"
    return arguments.pop(0)


@every_case("name", forms.FORMS)
def test_calls_that_must_be_made_are_read(name):
    text = written(forms.calls(forms.FORMS[name], FUNCTIONS), list(ARGUMENTS))
    assert parse(name, [text]) == ("", WANTED)
    assert parse(name, list(text)) == ("", WANTED)


@every_case("name", [name for name, form in forms.FORMS.items() if form.trigger])
def test_calls_in_free_text_begin_with_the_trigger(name):
    form = forms.FORMS[name]
    assert (form.before or form.begin).startswith(form.trigger)
    for variant in range(1 + len(form.variants)):
        texts = [
            form.trigger + written(rests(form, [tool])[variant], [arguments])
            for tool, arguments in zip(FUNCTIONS, ARGUMENTS, strict=True)
        ]
        if form.after and variant == 0:  # one block of all calls
            texts = [form.trigger + written(rests(form, FUNCTIONS)[0], list(ARGUMENTS))]
        assert parse(name, ["So. " + "\n".join(texts)]) == ("So.", WANTED)


def rests(form, tools, **options):
    """What may follow the trigger: the form's own, and that of each variant."""
    rest = forms.after_trigger(form, tools, **options)
    return rest["elements"] if rest["type"] == "or" else [rest]


def allows(form, text, ends=False):
    """Whether a grammar of the format lets a model write the text and end there, and must end there."""
    tokenizer = LLTokenizer("byte")
    matcher = LLMatcher(tokenizer, grammar_of_format(form, "tools"))
    accepted = matcher.consume_tokens(list(text.encode())) and matcher.is_accepting()
    return accepted and (matcher.is_stopped() or not ends)


TYPED = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {
                "properties": {"a": {"type": "string"}},
                "required": ["a"],
                "additionalProperties": False,
            },
        },
    }
]


@pytest.mark.parametrize("name", [*forms.FORMS, ""])
@pytest.mark.parametrize("parallel", [True, False])
def test_a_grammar_holds_calls_to_the_form_and_to_the_parameters(name, parallel):
    form = forms.FORMS.get(name, forms.PLAIN)
    called = forms.calls(form, TYPED, parallel=parallel)
    assert allows(called, written(called, ['{"a": "x"}']))
    assert not allows(called, written(called, ['{"a": 1}']))
    assert not allows(called, written(called, ['{"b": "x"}']))
    assert not allows(called, "So.")
    twice = written(forms.calls(form, TYPED * 2), ['{"a": "x"}'] * 2)
    assert allows(called, twice) is parallel


@pytest.mark.parametrize("name", [name for name, form in forms.FORMS.items() if form.trigger])
def test_a_grammar_holds_calls_in_free_text(name):
    form = forms.FORMS[name]
    held = forms.after_trigger(form, TYPED)
    for rest in rests(form, TYPED):
        text = written(rest, ['{"a": "x"}'])
        assert allows(held, text, ends=True)
        assert not allows(held, "So.")
        assert not allows(held, written(rest, ['{"a": 1}']))
    twice = written(forms.after_trigger(form, TYPED * 2), ['{"a": "x"}'] * 2)
    assert allows(held, twice) is bool(form.after)
    assert not allows(forms.after_trigger(form, TYPED, parallel=False), twice)


def test_every_form_is_a_family_s():
    assert set(forms.FORMS) < set(TOOLS)


def test_a_list_of_calls_in_plain_json_is_read():
    text = written(forms.calls(forms.PLAIN, FUNCTIONS), list(ARGUMENTS))
    parser = CallFinder(PLAIN)
    pieces = [piece for char in text for piece in parser.push(char)[1]]
    assert joined(pieces) == WANTED


def test_the_arguments_of_a_known_tool_are_the_whole_text():
    parser = ArgumentsOf("f")
    out = [parser.push(text) for text in (" ", '{"a"', ": 1}", "")]
    assert [content for content, _ in out] == [""] * 4
    assert joined(piece for _, pieces in out for piece in pieces) == [("f", '{"a": 1}')]


CLOSED = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("parameters", "schema"),
    [
        (None, forms.NO_PARAMETERS),
        ({}, {"type": "object"}),
        ({"properties": {}}, forms.NO_PARAMETERS),
        ({"properties": {"a": {}}}, CLOSED),
        ({"properties": {"a": {}}, "required": ["a"]}, {**CLOSED, "required": ["a"]}),
        ({"properties": {"a": {}}, "additionalProperties": True}, {**CLOSED, "additionalProperties": True}),
        *(
            ({"properties": {"a": {}}, **more}, {"type": "object", "properties": {"a": {}}, **more})
            for more in ({"required": ["b"]}, {"allOf": [{"properties": {"b": {}}}]})
        ),
    ],
)
def test_arguments_are_an_object_of_the_declared_parameters(parameters, schema):
    function = {"name": "f"} | ({"parameters": parameters} if parameters is not None else {})
    assert forms.arguments(function)["json_schema"] == schema


def test_a_name_is_written_as_json_writes_it():
    tools = [{"type": "function", "function": {"name": 'a"b'}}]
    text = written(forms.calls(forms.FORMS["hermes"], tools), ["{}"])
    assert json.loads(text.split("\n")[1])["name"] == 'a"b'


@pytest.mark.parametrize("family", ["hermes", "kimi_k2", "mistral"])
def test_a_tool_may_have_any_word_in_its_name(family):
    form = forms.FORMS[family]
    for name in ("REINDEX_ALL", "NAME", "IDENTIFIER"):
        tools = [{"type": "function", "function": {"name": name, "parameters": {}}}]
        text = form.trigger + written(rests(form, tools)[0], ["{}"])
        assert name in text
        assert parse(family, [text])[1] == [(name, "{}")]
