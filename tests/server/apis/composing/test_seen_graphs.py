"""What clients see of composed graphs: the graphs of inner models, and the path of a request, by their keys."""

from __future__ import annotations

import json
import re

import pytest
from fake_decoder import write_fake_model
from scripted_model import held_open

from pipelines.worker.request_sizes import LONG_CHARS
from server.keys.key_file import digest_of

GRAPHS = {
    "outer": "version: 1\ntask: chat\nnodes:\n  reply: {type: choose, shares: {middle: 1, tiny: 1}}\n",
    "middle": "version: 1\ntask: chat\nnodes:\n  reply: {type: graph, graph: tiny, from: request}\n",
    "twice": "version: 1\ntask: chat\nnodes:\n"
    "  first: {type: ask, graph: tiny, template: 'Say {{ request }}', max_tokens: 3}\n"
    "  reply: {type: ask, graph: tiny, from: {said: first}, template: '{{ said }}'}\n",
}
TRACE = {"X-Braid-Trace": "1"}
ASKED = {"model": "twice", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
RESPONSE = {"model": "twice", "input": "Hello", "max_output_tokens": 16}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_fake_model(folder / "tiny", max_context=1 << 20)
    for name, graph in GRAPHS.items():
        (folder / name).mkdir()
        (folder / name / "graph.yaml").write_text(graph)
    return folder


@pytest.fixture(scope="module")
def played(folder, tmp_path_factory):
    """Scenes with two keys: one for all models, one for those with graphs of others alone."""
    file = tmp_path_factory.mktemp("keys") / "keys.yaml"
    entries = {"all": "['*']", "few": "[outer, twice]"}
    file.write_text(
        "".join(
            f"- {{name: {name}, digest: {digest_of(name)}, models: {models}}}\n"
            for name, models in entries.items()
        )
    )
    with held_open(folder, keys_file=file, responses_store=False) as play:
        yield play


def sent(key, **headers):
    return {"Authorization": f"Bearer {key}", **headers}


def named(body):
    """The events of a stream by their names."""
    parts = [part.split("\n") for part in body.decode().split("\n\n") if part.startswith("event: ")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in parts]


def nodes_of(trace):
    return {span["node"] for span in trace["spans"]}


def test_a_graph_unfolds_to_those_that_the_key_may_use(played):
    async def scene(client):
        shown = (await client.get("/v1/models/outer/graph", **sent("all"))).json
        assert [node["graphs"] for node in shown["nodes"]] == [["middle", "tiny"]]
        assert [inner["model"] for inner in shown["inner"]] == ["middle", "tiny"]
        assert shown["inner"][0]["source"] == GRAPHS["middle"]
        few = (await client.get("/v1/models/outer/graph", **sent("few"))).json
        assert few == {**shown, "inner": []}

    played(scene)


def test_the_path_of_a_request_has_lines_of_models_that_the_key_may_use(played):
    async def scene(client):
        for path, body in (
            ("/v1/chat/completions", ASKED),
            ("/v1/messages", ASKED),
            ("/v1/responses", RESPONSE),
        ):
            whole = (await client.post(path, body, **sent("all", **TRACE))).json["trace"]
            assert [(call["line"], call["model"]) for call in whole["calls"]] == [
                ("first", "tiny"),
                ("reply", "tiny"),
            ]
            assert {"first", "first.tokens", "reply.generated"} <= nodes_of(whole)
            few = (await client.post(path, body, **sent("few", **TRACE))).json["trace"]
            assert nodes_of(few) == {"first", "reply"}
            assert "trace" not in (await client.post(path, body, **sent("all"))).json

    played(scene)


@pytest.mark.parametrize("length", [5, LONG_CHARS + 1], ids=["short", "long"])
def test_a_request_that_is_handed_on_is_the_inner_model_s_own(played, length):
    """A short one at once, a long one from a thread."""
    messages = [{"role": "user", "content": "a" * length}]

    async def scene(client):
        async def asked(model, **fields):
            body = {**ASKED, "model": model, "messages": messages, "temperature": 0, **fields}
            return await client.post("/v1/chat/completions", body, **sent("all", **TRACE))

        own, handed = (await asked("tiny")).json, (await asked("outer")).json
        assert handed["choices"] == own["choices"]
        assert handed["usage"]["prompt_tokens"] == own["usage"]["prompt_tokens"]
        assert handed["trace"]["decisions"] in ({"reply": "middle"}, {"reply": "tiny"})
        assert "reply" in nodes_of(handed["trace"])
        without = {"response_format": {"type": "json_object"}}  # the graph has no grammar
        refused = (await asked("tiny", **without)).error["message"]
        for fields in ({}, {"stream": True}):
            handed_on = await asked("outer", **without, **fields)
            assert handed_on.status == 400
            assert re.fullmatch(
                rf"line `reply`: model `(middle|tiny)`: {re.escape(refused)}", handed_on.error["message"]
            )

    played(scene)


def test_streams_end_with_the_path(played):
    async def scene(client):
        answer = await client.post("/v1/messages", ASKED | {"stream": True}, **sent("all", **TRACE))
        (delta,) = [data for name, data in named(answer.body) if name == "message_delta"]
        assert len(delta["trace"]["calls"]) == 2
        answer = await client.post("/v1/responses", RESPONSE | {"stream": True}, **sent("all", **TRACE))
        (first, *_), *_, (_, last) = events = named(answer.body)
        assert (first, len(last["response"]["trace"]["calls"])) == ("response.created", 2)
        assert "trace" not in events[0][1]["response"]

    played(scene)


def test_no_graphs_are_seen_without_the_status_page(folder):
    async def scene(client):
        assert (await client.get("/v1/models/outer/graph")).status == 404
        assert "trace" not in (await client.post("/v1/chat/completions", ASKED, **TRACE)).json

    with held_open(folder, status=False, responses_store=False) as play:
        play(scene)
