"""Graphs that name one another."""

from __future__ import annotations

import pytest
import toys

from graphs.check import GraphError
from graphs.compose import Graphs, GraphSource

PAIRS = """\
version: 1
task: tokens
nodes:
  pairs: {type: pairs, from: {query: request.query, documents: request.documents}}
"""


def outer(graph: str, task: str = "tokens") -> str:
    return f"version: 1\ntask: {task}\nnodes:\n  inner:\n    type: graph\n    graph: {graph}\n"


def graphs(**texts: str) -> Graphs:
    return Graphs({name: GraphSource(text) for name, text in texts.items()}, toys.NODE_TYPES, toys.TASKS)


def problems(table: Graphs, name: str) -> list[str]:
    with pytest.raises(GraphError) as caught:
        table(name)
    return [str(each) for each in caught.value.problems]


def test_the_ports_are_those_of_the_named_graph():
    inner = graphs(a=outer("pairs"), pairs=PAIRS)("a").result
    assert inner.gives == list[toys.Tokens]
    assert str(inner.sources["request"]) == "request"


def test_a_graph_within_a_graph_within_a_graph():
    assert graphs(a=outer("b"), b=outer("pairs"), pairs=PAIRS)("a").result.gives == list[toys.Tokens]


def test_the_reply_of_the_named_graph_is_compared():
    assert problems(graphs(a=outer("pairs", "chat"), pairs=PAIRS), "a") == [
        "a/graph.yaml:4: the task `chat` replies Reply, but the last line, `inner`, gives list[Tokens]"
    ]


def test_the_request_of_the_named_graph_is_compared():
    text = outer("pairs").replace("type: graph", "type: graph\n    from: request.query")
    (problem,) = problems(graphs(a=text, pairs=PAIRS), "a")
    assert "takes Ask, but `request.query` gives str" in problem


def test_an_unknown_graph_and_the_nearest_name():
    assert problems(graphs(a=outer("pears"), pairs=PAIRS), "a") == [
        "a/graph.yaml:6: there is no graph `pears`; did you mean `pairs`?"
    ]


def test_no_near_name_lists_the_graphs():
    assert problems(graphs(a=outer("zzz"), pairs=PAIRS), "a") == [
        "a/graph.yaml:6: there is no graph `zzz`; graphs: a, pairs"
    ]


def test_a_named_graph_with_problems():
    assert problems(graphs(a=outer("b"), b="version: 1\n"), "a") == [
        "a/graph.yaml:6: the graph `b` has problems of its own: "
        "b/graph.yaml:1: `nodes` must hold at least one line, `name: {type: …}`; "
        "b/graph.yaml:1: no task is given; write `task: NAME` with one of: chat, tokens, text"
    ]


def test_a_graph_that_names_itself():
    (problem,) = problems(graphs(a=outer("a")), "a")
    assert problem.startswith("a/graph.yaml:6: ")
    assert problem.endswith("a graph cannot contain itself: a → a")


@pytest.mark.parametrize("first", ["a", "b", "c"])
def test_a_circle_is_found_from_every_end(first):
    table = graphs(a=outer("b"), b=outer("c"), c=outer("a"))
    (problem,) = problems(table, first)
    assert "a graph cannot contain itself" in problem


def test_every_member_of_a_circle_has_the_problem_after_one_was_asked_for():
    table = graphs(a=outer("b"), b=outer("a"))
    problems(table, "a")
    assert "cannot contain itself" in problems(table, "b")[0]


def test_a_graph_beside_a_circle_is_good():
    table = graphs(a=outer("b"), b=outer("a"), pairs=PAIRS)
    problems(table, "a")
    assert table("pairs").task == "tokens"


def test_no_graph_of_that_name():
    assert graphs()("a") is None


def test_a_graph_is_checked_once():
    table = graphs(pairs=PAIRS)
    assert table("pairs") is table("pairs")


def test_without_a_repository_no_graph_is_known():
    from graphs.check import check

    with pytest.raises(GraphError) as caught:
        check(outer("pairs"), toys.NODE_TYPES, toys.TASKS)
    assert str(caught.value) == "graph.yaml:6: there is no graph `pairs`"
