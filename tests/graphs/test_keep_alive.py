"""How long a model stays without calls, as graphs and clients write it."""

import math

import pytest

from graphs.header import read_header
from graphs.keep_alive import keep_alive_s
from graphs.read import read


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0),
        (90, 90),
        (1.5, 1.5),
        ("5m", 300),
        ("1h30m", 5400),
        ("300", 300),
        ("500ms", 0.5),
        (-1, math.inf),
        ("-1", math.inf),
        ("-1m", math.inf),
    ],
)
def test_ollamas_words(value, seconds):
    assert keep_alive_s(value) == seconds


@pytest.mark.parametrize("value", ["", "soon", "5 minutes", True, None, [5], math.nan])
def test_anything_else_is_refused(value):
    with pytest.raises(ValueError, match="must be seconds"):
        keep_alive_s(value)


def test_the_top_of_a_graph_is_checked():
    document = read("version: 1\ntask: t\npinned: maybe\nkeep_alive: soon\nnodes: {}\n")
    read_header(document, {})
    problems = [str(problem) for problem in document.problems]
    assert any("`pinned` must be true or false" in problem for problem in problems)
    assert any("`keep_alive` must be seconds" in problem for problem in problems)
