"""Which line runs where."""

from __future__ import annotations

from graphs.placement import process


def test_request_nodes_run_in_the_worker_and_engine_nodes_in_the_host(chat):
    assert {each.name: process(each) for each in chat.bindings} == {
        "prompt": "worker",
        "tokens": "worker",
        "generated": "host",
        "text": "worker",
        "reply": "worker",
    }


def test_a_body_runs_with_its_engine(chat):
    assert {process(each) for each in chat["generated"].body} == {"host"}
