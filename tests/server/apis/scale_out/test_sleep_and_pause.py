"""vLLM's paths for trainers, of a server with two models of which one was unloaded before."""

from __future__ import annotations

import asyncio

import pytest
from fake_decoder import write_fake_model
from live_app import answers, live_app
from patience import PATIENCE_S


def completion(model):
    return "/v1/completions", {"model": model, "prompt": "a", "max_tokens": 1}


def test_a_server_sleeps_and_wakes_up_as_it_was(tmp_path):
    write_fake_model(tmp_path / "fake")
    write_fake_model(tmp_path / "other")
    answered = answers(
        tmp_path,
        [
            ("/models/unload", {"model": "other"}),
            ("/is_sleeping", None),
            ("/sleep?level=1", {}),
            ("/is_sleeping", None),
            completion("fake"),
            ("/wake_up", {}),
            ("/is_sleeping", None),
            completion("fake"),
            completion("other"),
            ("/sleep?level=2&mode=abort", {}),
            ("/wake_up?tags=weights&tags=kv_cache", {}),
            completion("fake"),
        ],
    )
    _, awake, sleep, sleeping, refused, woken, again, served, unloaded, aborted, tagged, back = answered
    assert [answer.json["is_sleeping"] for answer in (awake, sleeping, again)] == [False, True, False]
    assert (sleep.json, woken.json) == ({"status": "sleeping", "level": 1}, {"status": "awake", "tags": None})
    assert (refused.status, served.status, unloaded.status) == (404, 200, 404)
    assert (aborted.json["level"], tagged.json["tags"]) == (2, ["weights", "kv_cache"])
    assert back.status == 200


def test_a_server_pauses_and_goes_on(tmp_path):
    write_fake_model(tmp_path / "fake")
    answered = answers(
        tmp_path,
        [
            ("/is_paused", None),
            ("/pause?mode=keep&clear_cache=false", {}),
            ("/is_paused", None),
            ("/resume", {}),
            ("/is_paused", None),
            completion("fake"),
            ("/sleep?level=0", {}),
            ("/is_paused", None),
            ("/wake_up", {}),
            completion("fake"),
        ],
    )
    assert [answered[at].json["is_paused"] for at in (0, 2, 4, 7)] == [False, True, False, True]
    assert (answered[1].json, answered[3].json) == ({"status": "paused"}, {"status": "resumed"})
    assert (answered[5].status, answered[9].status) == (200, 200)


GRAPH = "version: 1\ntask: chat\nnodes:\n  reply: {type: graph, graph: fake, from: request}\n"


def test_composed_graphs_wake_up_after_the_models_that_they_name(tmp_path):
    write_fake_model(tmp_path / "fake")
    (tmp_path / "asks").mkdir()
    (tmp_path / "asks" / "graph.yaml").write_text(GRAPH)
    asked = {"model": "asks", "messages": [{"role": "user", "content": "a"}], "max_tokens": 1}
    paths = [("/sleep", {}), ("/wake_up", {}), ("/v1/chat/completions", asked)]
    assert [each.status for each in answers(tmp_path, paths)] == [200, 200, 200]


def test_a_model_that_fails_keeps_no_other_from_waking_up(tmp_path):
    for name in ("broken", "fake"):
        write_fake_model(tmp_path / name)

    async def scene(client):
        slept = await client.post("/sleep", {})
        (tmp_path / "broken" / "graph.yaml").write_text("version: 1\ntask: chat\nnodes: {}\n")
        (tmp_path / "broken" / "tokenizer.json").write_text("{")
        woken = await client.post("/wake_up", {})
        return slept.status, woken.status, (await client.post(*completion("fake"))).status

    app = live_app(tmp_path)
    slept, woken, served = app.run(scene(app.client))
    assert (slept, served) == (200, 200)
    assert 400 <= woken <= 503


def test_a_paused_server_sleeps_once_what_waited_has_ended(tmp_path):
    write_fake_model(tmp_path / "fake")

    async def scene(client):
        await client.post("/pause?mode=keep", {})
        asking = asyncio.create_task(client.post(*completion("fake")))
        async with asyncio.timeout(PATIENCE_S):
            while (
                b'vllm:num_requests_waiting{model_name="fake"} 1' not in (await client.get("/metrics")).body
            ):
                await asyncio.sleep(0.01)
            slept = await client.post("/sleep", {})
        paused = (await client.get("/is_paused")).json["is_paused"]
        await client.post("/wake_up", {})
        return slept.status, (await asking).status, paused

    app = live_app(tmp_path)
    assert app.run(scene(app.client)) == (200, 200, False)


def states_of(status):
    return [request["state"] for request in status.json["requests"]]


def test_what_waits_for_a_pause_is_shown_at_once_and_a_client_that_leaves_undoes_its_pause(tmp_path):
    write_fake_model(tmp_path / "fake")

    async def scene(client):
        await client.post("/pause?mode=keep", {})
        idle = states_of(await client.get("/v1/status"))
        asking = asyncio.create_task(client.post(*completion("fake")))
        while (await client.get("/v1/status")).json["queues"][0]["waiting"] != 1:
            await asyncio.sleep(0)
        kept = states_of(await client.get("/v1/status"))
        await client.post("/resume", {})
        long = {"prompt": "a", "max_tokens": 4000, "ignore_eos": True, "stream": True, "n": 32}
        running = client.begin_post("/v1/completions", {"model": "fake", **long})
        await running.answer.wrote.wait()
        pausing = client.begin("POST", "/pause?mode=wait")
        later = asyncio.create_task(client.post(*completion("fake")))
        while b'vllm:num_requests_waiting{model_name="fake"} 1' not in (await client.get("/metrics")).body:
            await asyncio.sleep(0.01)
        pausing.hang_up()
        statuses = [(await asking).status, (await later).status]
        running.hang_up()
        return idle, kept, statuses, (await client.get("/is_paused")).json

    async def within(client):
        async with asyncio.timeout(PATIENCE_S):
            return await scene(client)

    app = live_app(tmp_path)
    idle, kept, statuses, paused = app.run(within(app.client))
    assert (idle, kept, statuses) == ([], ["waiting"], [200, 200])
    assert paused == {"is_paused": False}


def test_a_paused_server_that_ends_says_so_to_what_waits(tmp_path):
    write_fake_model(tmp_path / "fake")

    async def scene(client, process):
        await client.post("/pause?mode=keep", {})
        stream = {"model": "fake", "prompt": "a", "stream": True}
        waiting = [
            asyncio.create_task(client.post(*completion("fake"))),
            asyncio.create_task(client.post("/v1/completions", stream)),
        ]
        async with asyncio.timeout(PATIENCE_S):
            while (await client.get("/v1/status")).json["queues"][0]["waiting"] != 2:
                await asyncio.sleep(0.01)
        process.drain.begin()
        alone = [waiting_task.done() for waiting_task in waiting]
        process.state.set_server_ends()
        process.drain.begin()
        return alone, await asyncio.gather(*waiting)

    app = live_app(tmp_path)
    alone, ended = app.run(scene(app.client, app.process))
    assert alone == [False, False], "one worker that ends leaves the pause to the others"
    assert [answer.status for answer in ended] == [503, 503]
    assert all("was paused" in answer.error["message"] for answer in ended)


@pytest.mark.parametrize(
    ("query", "paused"),
    [
        ("", ("abort", True)),
        ("?mode=keep", ("keep", True)),
        ("?wait_for_inflight_requests=true&clear_cache=false", ("wait", False)),
        ("?mode=abort&wait_for_inflight_requests=1", ("abort", True)),
    ],
)
def test_the_modes_of_a_pause(rig, query, paused):
    assert rig.post(f"/pause{query}", {}).status == 200
    assert rig.services.client.paused == [paused]


@pytest.mark.parametrize("path", ["/pause?mode=stop", "/sleep?mode=keep", "/sleep?level=9", "/sleep?level=x"])
def test_a_wrong_parameter_is_refused_by_name(rig, path):
    found = rig.post(path, {})
    assert found.status == 400
    assert path.partition("?")[2].partition("=")[0] in found.error["message"]
