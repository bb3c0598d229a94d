"""YAML text → values, lines and problems."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphs.read import MAX_CHARACTERS, MAX_DEPTH, read, scalar


def said(text: str) -> list[str]:
    return [f"{each.line}: {each.message}" for each in read(text).problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("no", "no"),
        ("on", "on"),
        ("12", 12),
        ("-3", -3),
        ("0x1f", 31),
        ("0o17", 15),
        ("1_000", "1_000"),
        ("12:30:00", "12:30:00"),
        ("2026-01-01", "2026-01-01"),
        ("1e-5", 1e-5),
        (".5", 0.5),
        ("1.", 1.0),
        ("-.inf", -math.inf),
        ("0.1.2", "0.1.2"),
        ("model/x.xml", "model/x.xml"),
    ],
)
def test_scalar_by_the_core_schema(text, value):
    assert scalar(text) == value
    assert type(scalar(text)) is type(value)


def test_nan_is_a_float():
    assert math.isnan(scalar(".nan"))


def test_a_very_long_number_is_read_without_raising():
    assert scalar("9" * 10_000) == math.inf


def test_quoted_scalars_are_text():
    assert read("a: '12'\nb: \"true\"\nc: |\n  12\n").data == {"a": "12", "b": "true", "c": "12\n"}


def test_lines_of_keys_and_items():
    document = read("a:\n  b: 1\n  c: [x,\n    y]\n")
    assert document.lines[("a",)] == 1
    assert document.lines[("a", "b")] == 2
    assert document.lines[("a", "c", 1)] == 4


def test_line_of_an_absent_key_is_that_of_the_key_around_it():
    assert read("a:\n  b: {c: 1}\n").line(("a", "b", "missing", "deeper")) == 2


def test_a_duplicate_key_names_both_lines_and_keeps_the_first():
    document = read("a: 1\nb: 2\na: 3\n")
    assert [str(each) for each in document.problems] == [
        "graph.yaml:3: `a` is written twice; the first is at line 1"
    ]
    assert document.data == {"a": 1, "b": 2}


def test_a_duplicate_key_in_a_flow_mapping():
    assert said("a: {x: 1,\n  x: 2}") == ["2: `x` is written twice; the first is at line 1"]


def test_problems_inside_a_duplicate_are_told_too():
    assert said("a: 1\na: {x: 1, x: 2}") == [
        "2: `a` is written twice; the first is at line 1",
        "2: `x` is written twice; the first is at line 2",
    ]


def test_reading_goes_on_after_a_duplicate():
    assert read("a: 1\na: 2\nb: 3").data == {"a": 1, "b": 3}


@pytest.mark.parametrize("key", ["1", "true", "null", "1.5", "~"])
def test_a_key_that_is_no_word(key):
    assert said(f"{key}: x") == [f"1: the key `{key}` is not a word; keys are words"]


def test_a_list_as_a_key():
    assert said("? [a, b]\n: c\n") == ["1: the key `a list or mapping` is not a word; keys are words"]


def test_an_anchor_and_its_alias_are_both_refused():
    document = read("a: &x {b: 1}\nc: *x\n")
    assert [each.line for each in document.problems] == [1, 2]
    assert "anchor `&x`" in document.problems[0].message
    assert "alias `*x`" in document.problems[1].message
    assert document.data is None


def test_an_alias_as_a_key():
    assert said("a: b\n*x : c\n")[0].startswith("2: the alias `*x`")


def test_a_billion_laughs_costs_nothing():
    laughs = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20)
    )
    assert read(laughs).data is None


def test_a_merge_key_is_refused():
    assert said("a: {<<: {b: 1}}") == [
        "1: merge keys (`<<`) are not part of the language; write the settings out"
    ]


@pytest.mark.parametrize("tag", ["!!str", "!!python/object:os.system", "!mine"])
def test_a_tag_is_refused(tag):
    (problem,) = said(f"a: {tag} x")
    assert problem.startswith("1: the tag `")


def test_a_tab_is_named():
    assert said("a:\n\tb: 1\n") == ["2: YAML does not allow a tab here; indent with spaces"]


def test_a_syntax_error_has_its_line():
    (problem,) = said("a: 1\nb: {c: 1\nd: 2\n")
    assert problem.startswith("3: not YAML: ")
    assert "starts at line 2" in problem


def test_a_second_colon_has_its_line():
    (problem,) = said("a: 1\nb: c: d\n")
    assert problem == "2: not YAML: mapping values are not allowed here"


def test_an_unclosed_bracket_is_at_the_last_line():
    (problem,) = said("a: [1,\n\n\n")
    assert int(problem.split(":")[0]) <= 3


def test_problems_before_a_syntax_error_are_kept():
    assert len(said("a: 1\na: 2\nb: {")) == 2


@pytest.mark.parametrize("text", ["", "   \n", "# only a comment\n", "---\n"])
def test_an_empty_file(text):
    document = read(text)
    assert document.data is None
    assert len(document.problems) == 1


@pytest.mark.parametrize("text", ["- a\n", "word\n", "12\n"])
def test_a_file_that_is_no_mapping(text):
    assert said(text) == ["1: a graph file is a mapping with the keys `version`, `task` and `nodes`"]


def test_a_second_document():
    assert said("a: 1\n---\nb: 2\n") == ["2: a second document starts here; a file holds one graph"]


def test_depth_is_bounded():
    assert said("a: " + "[" * MAX_DEPTH) == [f"1: values are nested more than {MAX_DEPTH} deep"]


def test_the_greatest_depth_is_read():
    inner = MAX_DEPTH - 1
    assert said("a: " + "[" * inner + "]" * inner) == []


def test_ten_thousand_brackets_do_not_recurse():
    assert read("[" * 10_000).data is None


def test_size_is_bounded():
    (problem,) = said("a" * (MAX_CHARACTERS + 1))
    assert f"at most {MAX_CHARACTERS}" in problem


def test_a_control_character_has_its_line():
    (problem,) = said("a: 1\nb: \x01\n")
    assert problem.startswith("2: not text")


def test_windows_line_ends_and_a_byte_order_mark():
    assert read("\ufeffa: 1\r\nb: 2\r\n").data == {"a": 1, "b": 2}


@given(st.text(alphabet="abn01:{}[]-,&*!|>'\"#%@`?~ \t\n<.", max_size=60))
def test_no_text_raises_and_each_gives_data_or_problems(text):
    document = read(text)
    assert (document.data is not None) or document.problems
    lines = text.count("\n") + 2
    assert all(1 <= each.line <= lines for each in document.problems)
