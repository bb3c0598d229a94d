"""GET status: what it holds, who may read it, and what watching costs."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from patience import until

from pipelines.base.errors import Unavailable
from pipelines.telemetry.request_record import ErrorRecord, NodeSpan, RequestRecord
from pipelines.wire.engine_view import (
    FREE,
    SHARED,
    BlockCounts,
    History,
    HostProcess,
    ModelLoad,
    ModelTotals,
    NodeView,
    PhaseTimes,
    SequenceView,
)
from pipelines.wire.messages import Inspected
from pipelines.worker.model_table import ModelCard
from server.apis.routes import described
from server.base.settings import Settings
from server.status.feed import MAX_WATCHERS

STREAM = "/v1/status?stream=1"
CHAT = "/v1/chat/completions"
BODY = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
SEQUENCE = SequenceView("req-1", 0, "running", 40, 32, 16, 3, 100, 2, 1.5, adapter="pirate")
VIEW = NodeView(
    *("generated", "generation", 7, 1, 1, 0),
    [SEQUENCE, SequenceView("req-2", 0, "waiting", 9, 0, 0, 0, 5, 0, 0.5)],
    BlockCounts(10, 3, 1, 6, 16),
    [(2, 0), (1, SHARED), (7, FREE)],
    [
        PhaseTimes("decoding", "body.logits", "model", 10, 3.0, 2, 0.5),
        PhaseTimes("decoding", "plan", "", 10, 1.0, 2, 0.5),
        PhaseTimes("with_prompts", "body.logits", "model", 5, 1.0, 0, 0.0),
    ],
    {"logits": {"engine": "openvino", "linear_layers": "30 of 31 by braid kernels"}},
)
RECORD = RequestRecord(
    *("req-0", 1700000000.0, CHAT, "tiny", 200, "stop", 0.5, 9, 4, 12, True),
    [NodeSpan("text", "updates", 0.1, 0.4, 0.02)],
)
ERROR = ErrorRecord("req-9", 1700000001.0, 400, CHAT, None, "no")
HISTORY = History(
    100.0, 1.0, {"running": [1, 2], "prompt_tokens": [5, 6], "prefix_queries": [0, 4], "prefix_hits": [0, 1]}
)
SHOWN = Inspected(
    *(1, "ready", HostProcess(77, 1.0, 1 << 20, 2.5)),
    [ModelLoad("tiny", 1, 1, 4096)],
    [VIEW],
    ModelTotals(100, 50, 30, 1, 8, 6),
    HISTORY,
    [RECORD],
    [ERROR],
)


PERIOD_S = 0.2
"""In place of a second."""


@pytest.fixture(autouse=True)
def sooner(monkeypatch):
    monkeypatch.setattr("server.status.feed.PERIOD_S", PERIOD_S)


@pytest.fixture
def shown(rig):
    rig.services.client.inspected = [SHOWN]
    return rig


def schema() -> Any:
    """That of the feed in the OpenAPI document."""
    told = described(Settings())
    operation = told["paths"]["/v1/status"]["get"]["responses"]["200"]["content"]
    return operation["application/json"]["schema"] | {"components": told["components"]}


def events(answer) -> list[Any]:
    blocks = answer.body.decode().split("\n\n")[:-1]
    return [json.loads(block.removeprefix("data: ")) for block in blocks]


@pytest.mark.parametrize("model", ["", "?model=tiny"])
def test_the_feed_is_what_the_document_says(shown, model):
    reply = shown.get(f"/v1/status{model}").json
    validator = Draft202012Validator(schema())
    validator.validate(reply)
    assert not validator.is_valid(reply | {"models": None})  # the schema says something
    assert (reply["object"], reply["model"], reply["server"]["default_model"]) == ("status", "tiny", "tiny")


def test_it_shows_the_engine_its_queue_and_its_requests(shown):
    reply = shown.get("/v1/status").json
    assert reply["engines"] == [{"engine": "0", "state": "ready", "pid": 77, "resident_bytes": 1 << 20}]
    (model,), (queue,) = reply["models"], reply["queues"]
    assert (model["id"], model["running"], model["waiting"], model["bytes"]) == ("tiny", 1, 1, 4096)
    assert (queue["node"], queue["map"]) == ("generated", [[2, 0], [1, -3], [7, -1]])
    assert queue["blocks"] == {"total": 10, "used": 3, "reusable": 1, "free": 6, "block_tokens": 16}
    first, second = reply["requests"]
    assert (first["id"], first["prompt_done"], first["adapter"], second["state"]) == (
        "req-1",
        32,
        "pirate",
        "waiting",
    )
    assert reply["totals"]["output_tokens"] == 30
    assert reply["history"]["series"]["running"] == [1, 2]
    assert reply["history"]["series"]["prefix_hit_rate"] == [None, 0.25]
    assert reply["recent"][0]["spans"] == [
        {"path": "text", "start_s": 0.1, "seconds": 0.4, "kind": "updates", "busy_s": 0.02}
    ]
    assert (reply["errors"][0]["id"], reply["errors"][0]["message"]) == ("req-9", "no")


def test_nodes_of_a_body_have_their_part_of_the_steps(shown):
    nodes = {node["path"]: node for node in shown.get("/v1/status").json["nodes"]}
    logits = nodes["generated.logits"]
    assert (logits["runs"], logits["seconds"], logits["share"]) == (15, 4.0, 0.8)
    assert (logits["recent_runs"], logits["recent_mean_s"], logits["recent_share"]) == (2, 0.25, 0.5)
    assert logits["opened"] == {"engine": "openvino", "linear_layers": "30 of 31 by braid kernels"}
    assert nodes["generated"]["opened"] == nodes["text"]["opened"] == {}
    assert (nodes["generated"]["runs"], nodes["generated"]["seconds"]) == (15, 5.0)
    assert (nodes["text"]["process"], nodes["generated.next"]["mean_s"]) == ("worker", None)
    (phase,) = shown.get("/v1/status").json["phases"]
    assert (phase["name"], phase["engine_node"], phase["mean_s"]) == ("plan", "generated", 0.1)


def test_an_unknown_model_is_a_404_with_the_nearest_name(shown):
    answer = shown.get("/v1/status?model=tini")
    assert (answer.status, answer.error["param"]) == (404, "model")
    assert "did you mean `tiny`" in answer.error["message"]
    assert shown.get("/v1/status?model=tini&stream=1").status == 404


def test_it_needs_the_key_that_other_paths_need(make_rig):
    rig = make_rig(api_keys=("secret",))
    assert rig.get("/v1/status").status == rig.get(STREAM).status == 401
    assert rig.get("/v1/status", Authorization="Bearer secret").json["server"]["needs_key"] is True


def watching(rig, scenario, num, **headers):
    """Run a scenario beside so many watchers."""

    async def whole(client):
        requests = [client.begin("GET", STREAM, headers=headers) for _ in range(num)]
        try:
            return await scenario(client, requests)
        finally:
            for request in requests:
                request.hang_up()
            await asyncio.gather(*(request.task for request in requests))

    return rig.run(whole)


class Clock:
    """Goes on when a test says so."""

    now_s = 100.0

    def monotonic(self):
        return self.now_s


def test_twenty_watchers_take_one_snapshot_a_second(shown, monkeypatch):
    clock = Clock()
    monkeypatch.setattr("server.status.feed.time", clock)
    inspected = []

    async def scenario(client, requests):
        for count in (1, 2, 3):
            await until(lambda count=count: all(len(request.answer.writes) == count for request in requests))
            clock.now_s += 0.9 * PERIOD_S
            await asyncio.sleep(2 * PERIOD_S)  # each of them has looked again
            inspected.append(shown.services.client.num_inspected)
            clock.now_s += 0.2 * PERIOD_S
        return [request.answer for request in requests]

    answers = watching(shown, scenario, 20)
    assert inspected == [1, 2, 3]
    assert all(answer.headers["content-type"].startswith("text/event-stream") for answer in answers)
    assert len({tuple(answer.writes[:3]) for answer in answers}) == 1  # some have a fourth one


def test_a_stream_may_be_asked_for_by_its_type(shown):
    async def scenario(client):
        request = client.begin("GET", "/v1/status", headers={"accept": "text/event-stream"})
        await until(lambda: request.answer.writes)
        request.hang_up()
        await request.task
        return request.answer

    assert events(shown.run(scenario))[0]["object"] == "status"


def test_without_a_watcher_no_snapshot_is_made(shown):
    async def scenario(client, requests):
        await until(lambda: all(each.answer.writes for each in requests))
        for each in requests:
            each.hang_up()
        await asyncio.gather(*(each.task for each in requests))
        return [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "status"]

    assert watching(shown, scenario, 3) == []


def test_watchers_are_bounded_and_take_no_place_of_requests(make_rig):
    rig = make_rig(max_concurrency=1)

    async def scenario(client, requests):
        await until(lambda: all(request.answer.writes for request in requests))
        refused, chat = await client.get(STREAM), await client.post(CHAT, BODY)
        requests[0].hang_up()
        await requests[0].task
        again = client.begin("GET", STREAM)
        await until(lambda: again.answer.writes)
        again.hang_up()
        await again.task
        return refused, chat.status, again.answer.status

    refused, chat, again = watching(rig, scenario, MAX_WATCHERS)
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert (chat, again) == (200, 200)


def test_watchers_are_let_go_when_the_worker_ends(shown):
    async def scenario(client, requests):
        await until(lambda: all(request.answer.writes for request in requests))
        shown.services.feed.end()
        await asyncio.gather(*(request.task for request in requests))
        later = await client.get(STREAM)
        return [request.answer.ended.is_set() for request in requests], later

    ended, later = watching(shown, scenario, 3)
    assert ended == [True] * 3
    assert (later.status, later.writes) == (200, [])


def test_the_feed_goes_on_without_an_engine_and_when_it_is_back(shown):
    client, catalogue = shown.services.client, shown.services.catalogue
    cards = catalogue.models

    async def scenario(_, requests):
        (request,) = requests
        await until(lambda: request.answer.writes)
        client.inspected, catalogue.models = Unavailable("the engine is starting"), []
        await until(lambda: events(request.answer)[-1]["engines"][0]["state"] == "down")
        down = events(request.answer)[-1]
        client.inspected, catalogue.models = [SHOWN], cards
        await until(lambda: events(request.answer)[-1]["engines"][0]["state"] == "ready")
        return down, events(request.answer)[-1]

    down, up = watching(shown, scenario, 1)
    assert [(model["id"], model["state"]) for model in down["models"]] == [("tiny", "down")]
    assert (down["queues"], down["requests"]) == ([], [])
    assert [record["id"] for record in down["recent"]] == ["req-0"]  # of before
    assert [(model["id"], model["state"]) for model in up["models"]] == [("tiny", "ready")]
    assert up["requests"]


def test_several_engines_are_side_by_side(make_rig):
    rig = make_rig(engines="3")
    rig.services.client.inspected = [SHOWN, Inspected(*SHOWN.__reduce__()[1][:-1], "2")]
    reply = rig.get("/v1/status").json
    assert [(engine["engine"], engine["state"]) for engine in reply["engines"]] == [
        ("0", "ready"),
        ("1", "down"),
        ("2", "ready"),
    ]
    assert [queue["engine"] for queue in reply["queues"]] == ["0", "2"]
    assert reply["queues"][1]["map"] == [[2, 2], [1, -3], [7, -1]]  # the owner is the third request
    assert reply["totals"]["output_tokens"] == 60
    assert reply["history"]["series"]["running"] == [2, 4]
    assert len(reply["recent"]) == 1


def test_a_model_that_loads_is_there(shown):
    shown.services.catalogue.models.append(ModelCard("slow", 1, 0, None, "loading", [], None))
    assert [one["state"] for one in shown.get("/v1/status").json["models"]] == ["ready", "loading"]


def test_a_request_is_cancelled_by_its_id(rig):
    rig.services.client.num_in_flight = 1
    answer = rig.post("/v1/requests/req-1/cancel", {})
    assert (answer.status, answer.json) == (200, {"id": "req-1", "cancelled": True})
    assert rig.services.client.cancelled == ["req-1"]
    rig.services.client.num_in_flight = 0
    assert rig.post("/v3/requests/req-1/cancel", {}).status == 404


def test_an_admin_key_cancels_where_there_is_one(make_rig):
    rig = make_rig(api_keys=("one",), admin_keys=("two",))
    rig.services.client.num_in_flight = 1
    answers = [rig.post("/v1/requests/r/cancel", {}, Authorization=f"Bearer {key}") for key in ("one", "two")]
    assert [answer.status for answer in answers] == [401, 200]
    assert "send a valid admin key" in answers[0].error["message"]
    assert make_rig(status=False).post("/v1/requests/r/cancel", {}).status == 404
