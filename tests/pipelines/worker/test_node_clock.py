"""The work of nodes for one call: what runs, what handles updates, and graphs within graphs."""

from __future__ import annotations

import asyncio

import pytest
from fake_decoder import write_fake_model
from test_pipeline import ALIAS, GREEDY, HELLO, read, serving

from pipelines.base.errors import RequestError
from pipelines.telemetry import deferred
from pipelines.telemetry.node_work import NodeWork, count_nodes
from pipelines.telemetry.registry import labelled
from pipelines.values.stream_values import Deferred, Series, Stream
from pipelines.values.tasks import GenerationInput
from pipelines.worker.node_clock import NodeClock

WORKERS_NODES = ["prompt", "tokens", "generated", "text", "reply"]


class Waits:
    """A stage that takes some time of a clock."""

    def __init__(self, clock, seconds):
        self.clock, self.seconds = clock, seconds

    def push(self, update):
        self.clock.now_s += self.seconds
        return update + 1


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


def counted(name, model, node):
    deferred.catch_up()
    return labelled(name, model, node)._value.get()


def calls(folder, request, *names):
    """The works of one call of each model."""

    async def run():
        async with serving(folder) as (client, catalogue):
            calls_made = []
            for name in names:
                call = catalogue.get(name).open(request, client)
                await read(call)
                calls_made.append(call.clock.works)
            return calls_made

    return asyncio.run(run())


def test_every_node_of_a_chat_is_timed_and_counted(tmp_path):
    write_fake_model(tmp_path / "tiny")
    before = {node: counted("braid:node_runs", "tiny", node) for node in WORKERS_NODES}
    (works,) = calls(tmp_path, GenerationInput(messages=HELLO, sampling=GREEDY), "tiny")
    assert list(works) == WORKERS_NODES
    assert all(work.runs == 1 and work.run_s > 0 for work in works.values())
    assert [node for node, work in works.items() if work.busy_s] == ["text", "reply"]
    for node in ("text", "reply"):
        assert 0 < works[node].busy_s <= works[node].last_s - works[node].first_s
    for node in WORKERS_NODES:
        assert counted("braid:node_runs", "tiny", node) == before[node] + 1
        assert counted("braid:node_seconds", "tiny", node) > 0


def test_a_graph_within_a_graph_is_timed_node_by_node(tmp_path):
    write_fake_model(tmp_path / "tiny")
    (tmp_path / "alias").mkdir()
    (tmp_path / "alias" / "graph.yaml").write_text(ALIAS)
    before_s = counted("braid:node_seconds", "alias", "reply")
    (works,) = calls(tmp_path, GenerationInput(messages=HELLO, sampling=GREEDY), "alias")
    assert set(works) == {"reply", *(f"reply.{node}" for node in WORKERS_NODES)}
    assert works["reply"].run_s >= sum(works[f"reply.{node}"].run_s for node in WORKERS_NODES)
    inner = works["reply.text"].busy_s + works["reply.reply"].busy_s
    assert inner > 0
    counted_s = counted("braid:node_seconds", "alias", "reply") - before_s
    assert counted_s == pytest.approx(works["reply"].run_s + inner)


def test_a_call_that_is_refused_while_it_is_prepared_counts_what_ran(tmp_path):
    write_fake_model(tmp_path / "tiny")
    before = counted("braid:node_runs", "tiny", "prompt")
    long = GenerationInput(messages=[{"role": "user", "content": "x" * 10_000}], sampling=GREEDY)
    with pytest.raises(RequestError):
        calls(tmp_path, long, "tiny")
    assert counted("braid:node_runs", "tiny", "prompt") == before + 1


def test_stages_of_one_stream_are_the_work_of_their_own_nodes(monkeypatch):
    clock, seconds = NodeClock(), Clock()
    monkeypatch.setattr("pipelines.worker.node_clock.monotonic", seconds)
    first = clock.run("a", lambda call: Stream(None, (lambda choice: Waits(seconds, 2.0),)), None, {})
    second = clock.run("b", lambda call, of: of.pipe(lambda choice: Waits(seconds, 6.0)), None, {"of": first})
    push = clock.chain(second, None)
    assert [push(0), push(5)] == [2, 7]
    assert (clock.works["a"].busy_s, clock.works["b"].busy_s) == (4.0, 12.0)


def test_functions_of_a_reply_are_the_work_of_the_node_that_added_them():
    clock = NodeClock()

    def later(value):
        return Deferred("engine", (lambda inner: inner + 1,))

    value = clock.run("a", lambda call: Deferred("engine", (later,)), None, {})
    inner = clock.apply(value.makers[0], 1)
    assert clock.apply(inner.makers[0], 1) == 2
    assert clock.works["a"].last_s > clock.works["a"].first_s > 0
    parts = clock.run("b", lambda call: Series([Deferred("one", (str,)), Deferred("two", (int,))]), None, {})
    assert [clock.apply(part.makers[0], 3) for part in parts.parts] == ["3", 3]
    assert clock.works["b"].busy_s > 0


def test_what_no_node_added_is_applied_all_the_same():
    clock = NodeClock()
    assert clock.apply(str, 3) == "3"
    assert clock.works == {}


def test_a_node_that_fails_has_run():
    clock = NodeClock()
    with pytest.raises(ZeroDivisionError):
        clock.run("a", lambda call: 1 / 0, None, {})
    assert clock.works["a"].runs == 1
    assert clock.path == ""


def test_the_work_of_an_inner_graph_on_updates_is_the_outer_nodes_too():
    outer, inner = NodeWork(), NodeWork()
    outer.ran(1.0, 1.5)
    inner.ran(1.0, 1.25)
    inner.worked(2.0, 2.125)
    before = counted("braid:node_seconds", "nested", "all")
    count_nodes("nested", {"all": outer, "all.text": inner})
    assert counted("braid:node_seconds", "nested", "all") == before + 0.625
    assert counted("braid:node_seconds", "nested", "all.text") == 0.375


def test_what_a_function_of_a_reply_starts_belongs_to_its_node():
    clock, seen = NodeClock(), []

    def make(value):
        seen.append(clock.path)
        return value

    clock.run("logits", lambda call: Deferred(None, (make,)), None, {})
    clock.apply(make, 1)
    assert (seen, clock.path) == (["logits"], "")
