"""Composed graphs by every way in that is no plain request: background responses, batches, Python, decisions."""

from __future__ import annotations

import asyncio

import pytest
from batch_bodies import create, ended, line, lines, results
from fake_decoder import write_fake_model
from patience import PATIENCE_S
from scripted_model import held_open

from pipelines import Local
from pipelines.wire.sampling_params import BACKGROUND
from pipelines.worker.composed_call import ComposedCall

TWICE = """\
version: 1
task: chat
nodes:
  first: {type: ask, graph: tiny, template: "Say {{ request }}", max_tokens: 3, temperature: 0}
  reply: {type: ask, graph: tiny, from: {said: first}, template: "{{ said }}"}
"""
HANDED = "version: 1\ntask: chat\nnodes:\n  reply: {type: choose, shares: {tiny: 1}}\n"
CHAT = "/v1/chat/completions"
GREEDY = {"temperature": 0, "ignore_eos": True}
MESSAGES = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ways")
    write_fake_model(folder / "tiny")
    for name, graph in (("twice", TWICE), ("handed", HANDED)):
        (folder / name).mkdir()
        (folder / name / "graph.yaml").write_text(graph)
    return folder


@pytest.fixture(scope="module")
def played(folder, tmp_path_factory):
    files = tmp_path_factory.mktemp("stores")
    with held_open(folder, files=files / "files", responses_store=True) as play:
        yield play


async def chat(client, **fields):
    body = {"model": "twice", "messages": MESSAGES, "max_tokens": 8, **GREEDY, **fields}
    return (await client.post(CHAT, body)).json


@pytest.fixture
def opened(monkeypatch):
    """All composed calls that are made."""
    calls, make = [], ComposedCall.__init__

    def noted(self, *arguments):
        make(self, *arguments)
        calls.append(self)

    monkeypatch.setattr(ComposedCall, "__init__", noted)
    return calls


def test_a_background_response_is_the_same_text(played):
    async def scene(client):
        body = {"model": "twice", "input": "Hello", "max_output_tokens": 16, "temperature": 0}
        whole = (await client.post("/v1/responses", body)).json
        created = (await client.post("/v1/responses", {**body, "background": True})).json
        async with asyncio.timeout(PATIENCE_S):
            while (read_again := (await client.get(f"/v1/responses/{created['id']}")).json)["status"] in (
                "queued",
                "in_progress",
            ):
                await asyncio.sleep(0.02)
        texts = [response["output"][0]["content"][0]["text"] for response in (whole, read_again)]
        assert texts[0] == texts[1]
        assert read_again["usage"]["input_tokens"] == whole["usage"]["input_tokens"] > 0

    played(scene)


def test_batches_have_its_replies_and_all_that_lines_ask_gives_way(played, opened):
    async def scene(client):
        own = await chat(client)
        opened.clear()
        asked = {"model": "twice", "messages": MESSAGES, "max_tokens": 8, **GREEDY}
        created = (await create(client, lines(line("a", **asked), line("b", **asked)))).json
        batch = await ended(client, created["id"])
        assert batch["status"] == "completed", batch
        for result in await results(client, batch["output_file_id"]):
            body = result["response"]["body"]
            assert body["choices"] == own["choices"]
            assert body["usage"]["prompt_tokens"] == own["usage"]["prompt_tokens"]
        priorities = [asked._call.request.sampling["priority"] for call in opened for asked in call.asked]
        assert priorities == [BACKGROUND] * 4

    played(scene)


def test_lines_have_the_place_of_the_client_among_others(played, opened):
    async def scene(client):
        for session in ("one", "two"):
            await client.post(
                CHAT, {"model": "twice", "messages": MESSAGES, "max_tokens": 2}, **{"X-Session-ID": session}
            )
        first, second = opened
        origins = [{asked._call._origin for asked in call.asked} for call in (first, second)]
        assert all(len(origin) == 1 for origin in origins)
        (first_origin,), (two,) = origins
        assert first_origin.tenant == first.tenant != second.tenant == two.tenant
        assert "" not in (first_origin.tenant, first_origin.name)

    played(scene)


def test_decisions_count_what_lines_read(played):
    async def scene(client):
        questions = [{"type": "predicate", "instructions": "It is."}]
        own, handed = [
            (
                await client.post("/v1/decisions", {"model": model, "input": "Hello", "questions": questions})
            ).json
            for model in ("tiny", "handed")
        ]
        assert handed["answers"] == own["answers"]
        assert handed["usage"]["input_tokens"] == own["usage"]["input_tokens"] > 0

    played(scene)


def test_python_has_the_text_the_stream_and_the_counts(folder, played):
    own = played(chat)
    with Local(folder) as braid:
        asked = {"model": "twice", "max_tokens": 8, **GREEDY}
        reply = braid.chat("Hello", **asked)
        assert reply.text == own["choices"][0]["message"]["content"]
        assert reply.usage.prompt_tokens == own["usage"]["prompt_tokens"]
        with braid.chat_stream("Hello", **asked) as pieces:
            assert "".join(piece.text for piece in pieces) == reply.text
