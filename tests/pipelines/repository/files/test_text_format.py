"""Protobuf's text format: every spelling that files use, and an error with its line for every other text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.repository.files.text_format import TextFormatError, TextMessage, Word, parse


def tree(message):
    return [
        (each.name, tree(each.value) if isinstance(each.value, TextMessage) else each.value)
        for each in message.fields
    ]


@pytest.mark.parametrize(
    "text",
    [
        'node { name: "a" number: 2 }',
        'node: { name: "a", number: 2, }',
        "node <name: 'a'; number: 0x2;>",
        'node {\n # a comment: name: "b"\n name: "a" # number: 3\n number: 02 }',
        'node: [{ name: "" "a" \'\' number: 2 }]',
        'node [{ name: ["a"], number: [2] }]',
    ],
)
def test_one_message_in_many_spellings(text):
    assert tree(parse(text)) == [("node", [("name", "a"), ("number", 2)])]


@pytest.mark.parametrize("name", ["type.googleapis.com / mediapipe.X", "type.googleapis.com/mediapipe.X"])
@pytest.mark.parametrize("colon", [":", ""])
def test_names_of_types(name, colon):
    assert tree(parse(f"[{name}] {colon} {{ a: 1 }}")) == [("[type.googleapis.com/mediapipe.X]", [("a", 1)])]


def test_a_list_is_a_field_for_each_value():
    assert tree(parse('a: ["x", "y"] b [{c: 1}, {c: 2}] d: []')) == [
        *(("a", "x"), ("a", "y")),
        *(("b", [("c", 1)]), ("b", [("c", 2)])),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", Word("true")),
        ("CLS", Word("CLS")),
        ("-inf", Word("-inf")),
        ("-1.5f", -1.5),
        ("1e3", 1000.0),
        ("010", 8),
        (r'"a\n\t\"\x41\101é"', 'a\n\t"AAé'),
    ],
)
def test_values(text, value):
    (found,) = parse(f"a: {text}").fields
    assert (found.value, type(found.value)) == (value, type(value))


def test_each_field_has_its_line():
    message = parse('a: 1\nnode {\n  b:\n    "x"\n    "y"\n  c: 2\n}\n')
    a, node = message.fields
    assert (a.line, node.line, [each.line for each in node.value.fields]) == (1, 2, [3, 6])


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("node {\n a: 1\n", 3, "expected `}`, found the end of the file"),
        ("a: 1\n}", 2, "expected a name, found `}`"),
        ('a: "x\n', 1, 'unexpected `"x`'),
        ("a\n\nb: 1", 3, "expected `:` or a message, found `b`"),
        ("a: [1 2]", 1, "expected `,` or `]`, found `2`"),
        ("[a.b", 1, "expected `]`, found the end of the file"),
        ("a: 1x", 1, "unexpected `1x`"),
        ("a: ,", 1, "expected a value, found `,`"),
        ('\na: "\\ud800"', 2, "is no character"),
        ("a: 1\n" + "a {" * 60, 2, "nested more than 50 levels"),
        ("a" * 2_000_000, 1, "the file is 2000000 characters long"),
    ],
)
def test_a_fault_is_named_with_its_line(text, line, what):
    with pytest.raises(TextFormatError) as caught:
        parse(text)
    assert caught.value.line == line
    assert what in caught.value.text


def fault_of(text):
    try:
        parse(text)
    except TextFormatError as error:
        return error
    return None


PIECES = st.sampled_from(
    [
        *"{}<>[]:,;.-/'\"#\\ \n\t\x00é",
        "node",
        "a",
        "0x",
        "1",
        "1.5e9",
        '"s"',
        "a: 1\n",
        "m {",
        "[a/b.C]",
        "9" * 60,
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES | st.text(max_size=3), max_size=40).map("".join))
def test_any_text_is_a_tree_or_a_fault_in_one_of_its_lines(text):
    fault = fault_of(text)
    assert fault is None or (1 <= fault.line <= text.count("\n") + 1 and fault.text.isprintable())


NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True)
SCALARS = (
    st.integers(-(2**40), 2**40).map(lambda value: (str(value), value))
    | st.text(st.characters(codec="utf-8", exclude_characters='"\\\n'), max_size=8).map(
        lambda value: (f'"{value}"', value)
    )
    | st.sampled_from(["true", "CLS"]).map(lambda value: (value, Word(value)))
)
TREES = st.recursive(
    st.lists(st.tuples(NAMES, SCALARS), max_size=3),
    lambda inner: st.lists(st.tuples(NAMES, SCALARS | inner), max_size=4),
    max_leaves=12,
)


def written(fields, line, draw):
    """(text, tree with lines) of fields that begin in `line`, in spellings that `draw` chooses."""
    text, tree_there = "", []
    for name, value in fields:
        blank = draw(st.sampled_from([" ", "\n", " # note: {\n", "\n\n\t"]))
        text += blank
        at = line + text.count("\n")
        if isinstance(value, tuple):
            text += f"{name}: {value[0]}"
            tree_there.append((name, at, value[1]))
        else:
            opening, closing = draw(st.sampled_from(["{}", "<>"]))
            text += f"{name}{draw(st.sampled_from(['', ':', ' ']))}{opening}"
            inner, fields_inside = written(value, line + text.count("\n"), draw)
            text += inner + closing
            tree_there.append((name, at, fields_inside))
        text += draw(st.sampled_from(["", ",", ";", " ;"]))
    return text + "\n" * bool(text), tree_there


def lined(message):
    return [
        (each.name, each.line, lined(each.value) if isinstance(each.value, TextMessage) else each.value)
        for each in message.fields
    ]


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_a_tree_is_read_as_it_was_written_and_every_line_is_right(data):
    text, made = written(data.draw(TREES), 1, data.draw)
    assert lined(parse(text)) == made
