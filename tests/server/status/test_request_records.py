"""Records of requests that have ended: where their time went, why they failed, and nothing that they said."""

from __future__ import annotations

import asyncio
import json

import pytest
from asgi_client import AsgiClient
from paced_model import write_model
from patience import PATIENCE_S, until

from server.app import create_app
from server.base.settings import Settings
from server.connect import connect

CHAT = "/v1/chat/completions"
MARKER = "xyzzyplugh"
NODES = {"prompt", "tokens", "generated", "text", "reply"}


def served(folder, scenario, step_s=0.0, **settings):
    """Run a scenario beside a server of one model."""
    write_model(folder / "tiny", step_s=step_s)

    async def whole():
        services = connect(Settings(models=folder, in_process=True, responses_store=False, **settings))
        async with AsgiClient(create_app(services)) as client:
            async with asyncio.timeout(PATIENCE_S):
                while [card.state for card in services.catalogue.cards()] != ["ready"]:
                    await asyncio.sleep(0.01)
            return await scenario(client, services)

    return asyncio.run(whole())


def chat(**more):
    return {"model": "tiny", "messages": [{"role": "user", "content": MARKER}], "max_tokens": 8, **more}


async def recorded(client, services, num):
    """The feed once it has the records of so many requests."""
    services.requests.flush()
    while True:
        reply = (await client.get("/v1/status")).json
        if len(reply["recent"]) >= num:
            return reply
        await asyncio.sleep(0.05)


@pytest.fixture(autouse=True)
def sooner(monkeypatch):
    monkeypatch.setattr("server.status.feed.PERIOD_S", 0.05)
    monkeypatch.setattr("pipelines.host.host_view.REUSE_S", 0.02)


def test_a_request_is_recorded_node_by_node_and_without_its_text(tmp_path):
    async def scenario(client, services):
        heard = []
        services.requests.listeners.append(heard.append)
        whole = await client.post(
            CHAT, chat(temperature=0.5, ignore_eos=True), X_Request_Id="one", traceparent="00-ab-cd-01"
        )
        stream = await client.post(CHAT, chat(stream=True, n=2), X_Request_Id="two")
        refused = await client.post(CHAT, chat(temperature=MARKER), X_Request_Id="three")
        unknown = await client.post("/v1/nothing", {}, X_Request_Id="four")
        assert [answer.status for answer in (whole, stream, refused, unknown)] == [200, 200, 400, 404]
        assert MARKER in refused.error["message"]
        return await recorded(client, services, 3), heard, whole

    reply, heard, whole = served(tmp_path, scenario)
    assert MARKER not in json.dumps(reply)
    three, two, first_record = reply["recent"]
    assert (
        first_record["id"],
        first_record["path"],
        first_record["model"],
        first_record["status"],
        first_record["stream"],
    ) == (
        "one",
        CHAT,
        "tiny",
        200,
        False,
    )
    assert (first_record["output_tokens"], first_record["finish"]) == (8, "length")
    assert first_record["prompt_tokens"] == whole.json["usage"]["prompt_tokens"]
    assert (two["id"], two["stream"], three["id"], three["status"], three["model"]) == (
        "two",
        True,
        "three",
        400,
        None,
    )
    assert two["cached_tokens"] > 0  # the prompt was the same
    for record in (first_record, two):
        spans = {(span["path"], span["kind"]) for span in record["spans"]}
        assert {path for path, _ in spans} == NODES
        assert {kind for path, kind in spans if path == "generated"} == {"wait", "prefill", "decode"}
        assert ("text", "updates") in spans
        assert ("prompt", "run") in spans
        for span in record["spans"]:
            assert 0 <= span["start_s"] <= span["start_s"] + span["seconds"] <= record["seconds"] + 1e-6
    assert [(error["id"], error["status"], error["message"]) for error in reply["errors"]] == [
        ("three", 400, "`temperature` must be a number")
    ]
    assert [heard_record.record.id for heard_record in heard] == ["one", "two", "three"]
    assert heard[0].traceparent == "00-ab-cd-01"
    assert heard[0].started == pytest.approx(heard[0].record.at - heard[0].record.seconds)
    assert (heard[0].sampling.max_tokens, heard[0].sampling.temperature) == (8, 0.5)
    assert len(heard[1].finishes) == 2
    assert (heard[2].sampling, heard[2].errors[0].status) == (None, 400)


def test_a_listener_that_fails_is_no_concern_of_the_others(tmp_path, caplog):
    async def scenario(client, services):
        heard = []
        services.requests.listeners += [lambda ended: 1 / 0, heard.append]
        await client.post(CHAT, chat())
        services.requests.flush()
        return heard

    assert len(served(tmp_path, scenario, status=False)) == 1
    assert "listener" in caplog.text


def test_a_client_that_leaves_and_one_that_is_cancelled_are_recorded(tmp_path):
    async def scenario(client, services):
        left = client.begin_post(
            CHAT, chat(stream=True, max_tokens=4000, ignore_eos=True), X_Request_Id="left"
        )
        ended = client.begin_post(
            CHAT, chat(stream=True, max_tokens=4000, ignore_eos=True), X_Request_Id="ended"
        )
        await until(lambda: left.answer.writes and ended.answer.writes)
        while True:
            shown = (await client.get("/v1/status")).json["requests"]
            if {record["id"] for record in shown} == {"left", "ended"}:
                break
            await asyncio.sleep(0.01)
        left.hang_up()
        cancelled = await client.post("/v1/requests/ended/cancel", {})
        again = await client.post("/v1/requests/nothing/cancel", {})
        await asyncio.gather(left.task, ended.task)
        return shown, cancelled, again, ended.answer, await recorded(client, services, 3)

    shown, cancelled, again, ended, reply = served(tmp_path, scenario, step_s=0.005)
    assert (cancelled.status, again.status) == (200, 404)
    assert [choice["finish_reason"] for choice in ended.events[-2]["choices"]] == ["abort"]
    assert ended.events[-1] == "[DONE]"
    finishes = {record["id"]: record["finish"] for record in reply["recent"] if record["path"] == CHAT}
    assert finishes == {"left": "abort", "ended": "abort"}
    assert all(record["max_tokens"] == 4000 and record["state"] == "running" for record in shown)


def test_nothing_is_recorded_where_the_status_is_off(tmp_path):
    async def scenario(client, services):
        await client.post(CHAT, chat())
        return services.requests._ended

    assert served(tmp_path, scenario, status=False) == []
