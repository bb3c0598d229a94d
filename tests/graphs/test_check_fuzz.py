"""Whatever stands in a graph file, the checker gives a graph or problems with lines of that file."""

from __future__ import annotations

import json

import pytest
import toys
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs.check import GraphError, Problem, check

pytestmark = pytest.mark.slow

WORDS = [
    "request",
    "step",
    "prompt",
    "tokens",
    "a",
    "b",
    "request.query",
    "a.ids",
    "é",
    "1a",
    "model/x",
    "../x",
    "",
    "x\n\x1b[2J",
]
KEYS = [
    *WORDS,
    "type",
    "from",
    "body",
    "nodes",
    "task",
    "version",
    "graph",
    "cache",
    "path",
    "template",
    "text",
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(),
    st.sampled_from([*WORDS, *toys.NODE_TYPES, "chat"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)
LINE = st.fixed_dictionaries(
    {"type": st.sampled_from([*toys.NODE_TYPES])},
    optional={
        "from": st.sampled_from(WORDS) | VALUES,
        "body": st.dictionaries(st.sampled_from(WORDS), VALUES, max_size=2) | VALUES,
        "path": VALUES,
        "template": VALUES,
        "tokenizer": VALUES,
        "cache": VALUES,
        "parts": VALUES,
        "graph": VALUES,
    },
)
NODES = st.dictionaries(st.sampled_from(WORDS), LINE | VALUES, max_size=5) | VALUES
FILES = st.fixed_dictionaries({"nodes": NODES}, optional={"version": VALUES, "task": SCALARS, "b": VALUES})


@given(FILES)
@settings(max_examples=30, deadline=None)
def test_any_file_gives_a_graph_or_problems(data):
    text = json.dumps(data, indent=1, ensure_ascii=False)
    problems = said(text)
    assert all(1 <= each.line <= text.count("\n") + 1 for each in problems)
    assert all(each.message.isprintable() for each in problems)


def said(text: str) -> tuple[Problem, ...]:
    try:
        assert check(text, toys.NODE_TYPES, toys.TASKS).bindings
    except GraphError as error:
        return error.problems
    return ()
