"""Which line runs where, and what crosses."""

from __future__ import annotations

import toys

from graphs.check import Source, check
from graphs.placement import placement, process


def test_request_nodes_run_in_the_worker(chat):
    assert [each.name for each in placement(chat).worker] == ["prompt", "tokens", "text", "reply"]


def test_engine_nodes_run_in_the_host(chat):
    assert [each.name for each in placement(chat).host] == ["generated"]


def test_a_body_runs_with_its_engine(chat):
    assert {process(each) for each in chat["generated"].body} == {"host"}


def test_what_crosses_is_the_engine_s_inputs_and_its_value(chat):
    (crossing,) = placement(chat).crossings
    assert crossing.engine == "generated"
    assert crossing.inputs == {"prompts": (Source("tokens"), list[toys.Tokens])}
    assert crossing.gives == toys.Stream[list[int]]


def test_a_graph_without_an_engine_crosses_nothing():
    text = "version: 1\ntask: text\nnodes:\n  a: {type: chat_template, template: x}\n"
    planned = placement(check(text, toys.NODE_TYPES, toys.TASKS))
    assert (planned.host, planned.crossings) == ((), ())
