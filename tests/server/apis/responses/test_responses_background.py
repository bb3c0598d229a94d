"""Background responses: computed by one worker, polled, followed and cancelled through any."""

from __future__ import annotations

import asyncio
import json
import sqlite3

import pytest
from asgi_client import AsgiClient
from patience import PATIENCE_S, until
from responses_bodies import PATH, ask, events, types
from scripted import said

from pipelines.base.errors import EngineError, Unavailable
from server.apis.responses.database import ResponseDatabase
from server.sqlite import leases

ENDED = ("completed", "incomplete", "failed", "cancelled")


class Two:
    """Two workers of one server: the first computes, the second only reads."""

    def __init__(self, make_rig, file) -> None:
        self.first = make_rig(responses_file=file)
        self.second = make_rig(responses_file=file)

    def run(self, scenario):
        async def whole():
            async with AsgiClient(self.first.app) as first, AsgiClient(self.second.app) as second:
                return await asyncio.wait_for(scenario(first, second), PATIENCE_S)

        return asyncio.run(whole())


@pytest.fixture
def two(make_rig, tmp_path):
    return Two(make_rig, tmp_path / "responses.sqlite")


async def start(client, **fields):
    answer = await client.post(PATH, ask(background=True, **fields))
    assert answer.status == 200, answer.body
    return answer.json


async def ended(client, response_id):
    while True:
        answer = await client.get(f"{PATH}/{response_id}")
        if answer.status != 200 or answer.json["status"] in ENDED:
            return answer
        await asyncio.sleep(0.02)


def test_it_is_queued_and_any_worker_sees_it_end(two):
    async def scenario(first, second):
        queued = await start(first)
        return queued, (await ended(second, queued["id"])).json

    queued, done = two.run(scenario)
    assert (queued["status"], queued["output"], queued["usage"]) == ("queued", [], None)
    assert done["status"] == "completed", done
    assert done["output"][0]["content"][0]["text"] == "Hello"
    assert done["id"] == queued["id"]


def test_any_worker_follows_its_events(two):
    two.first.pipeline.batches = [[(0, said("Hel"))], 0.2, [(0, said("lo"))], [(0, said("", "stop"))]]

    async def scenario(first, second):
        name = (await start(first))["id"]
        whole = await second.get(f"{PATH}/{name}?stream=true")
        rest = await second.get(f"{PATH}/{name}?stream=true&starting_after=4")
        nothing = await second.get(f"{PATH}/{name}?stream=true&starting_after=99")
        return events(whole.body), events(rest.body), events(nothing.body)

    whole, rest, nothing = two.run(scenario)
    assert types(whole)[:3] == ["created", "queued", "in_progress"]
    assert whole[0]["response"]["status"] == whole[1]["response"]["status"] == "queued"
    assert types(whole)[-1] == "completed"
    assert [event["sequence_number"] for event in whole] == list(range(len(whole)))
    assert rest == whole[5:]
    assert nothing == []


def test_it_may_be_streamed_from_its_start(two):
    async def scenario(first, second):
        answer = await first.post(PATH, ask(background=True, stream=True))
        found = events(answer.body)
        return found, (await second.get(f"{PATH}/{found[0]['response']['id']}")).json

    found, read = two.run(scenario)
    assert types(found)[:3] == ["created", "queued", "in_progress"]
    assert found[-1]["response"] == read


def test_a_client_that_leaves_its_stream_does_not_stop_it(two):
    left = asyncio.Event()
    two.first.pipeline.batches = [[(0, said("Hel"))], left, [(0, said("lo", "stop"))]]

    async def scenario(first, second):
        request = first.begin_post(PATH, ask(background=True, stream=True))
        await request.answer.wrote.wait()
        name = json.loads(request.answer.writes[0].split(b"data: ")[1].split(b"\n")[0])["response"]["id"]
        request.hang_up()
        request.task.cancel()
        await asyncio.wait({request.task})
        left.set()
        return (await ended(second, name)).json

    assert two.run(scenario)["status"] == "completed"


def test_any_worker_cancels_it(two):
    two.first.pipeline.batches = [[(0, said("Hel"))], "forever"]

    async def scenario(first, second):
        name = (await start(first))["id"]
        cancelled = await second.post(f"{PATH}/{name}/cancel", {})
        await until(lambda: two.first.pipeline.calls[0].closed)
        again = await first.post(f"{PATH}/{name}/cancel", {})
        stream = await second.get(f"{PATH}/{name}?stream=true")
        return cancelled, again, stream

    cancelled, again, stream = two.run(scenario)
    assert (cancelled.status, cancelled.json["status"]) == (200, "cancelled")
    assert (again.status, again.json["status"]) == (200, "cancelled")
    assert stream.body.endswith(b"data: [DONE]\n\n")


def test_what_ended_is_not_cancelled(two):
    async def scenario(first, second):
        name = (await start(first))["id"]
        await ended(second, name)
        return await second.post(f"{PATH}/{name}/cancel", {})

    answer = two.run(scenario)
    assert (answer.status, answer.error["message"]) == (400, "Cannot cancel a response that is completed.")


def test_deleting_it_stops_it(two):
    two.first.pipeline.batches = ["forever"]

    async def scenario(first, second):
        name = (await start(first))["id"]
        await second.ask("DELETE", f"{PATH}/{name}")
        await until(lambda: two.first.pipeline.calls[0].closed)
        return (await first.get(f"{PATH}/{name}")).status

    assert two.run(scenario) == 404


def test_it_cannot_be_continued_before_it_ended(two):
    two.first.pipeline.batches = ["forever"]

    async def scenario(first, second):
        name = (await start(first))["id"]
        early = await second.post(PATH, ask(previous_response_id=name))
        await second.post(f"{PATH}/{name}/cancel", {})
        late = await second.post(PATH, ask(previous_response_id=name))
        return early, late

    early, late = two.run(scenario)
    assert (early.status, early.error["param"]) == (400, "previous_response_id")
    assert late.status == 200


def test_its_failure_is_stored(two):
    two.first.pipeline.batches = [[(0, said("Hel"))], EngineError("the step failed")]

    async def scenario(first, second):
        name = (await start(first))["id"]
        return (await ended(second, name)).json, (await second.get(f"{PATH}/{name}?stream=true")).body

    read, body = two.run(scenario)
    assert (read["status"], read["error"]["message"]) == ("failed", "the step failed")
    assert types(events(body))[-2:] == ["error", "failed"]


def test_what_a_dead_worker_left_has_failed(two, monkeypatch):
    monkeypatch.setattr(leases, "LEASE_S", 0.3)
    two.first.pipeline.batches = [[(0, said("Hel"))], "forever"]

    async def scenario(first, second):
        name = (await start(first))["id"]
        following = asyncio.create_task(second.get(f"{PATH}/{name}?stream=true"))
        await asyncio.sleep(0.1)
        background = two.first.services.background
        for task in (background._heartbeats, *background._tasks):  # as if the process were gone
            task.cancel()
        return (await ended(second, name)).json, (await following).body

    read, body = two.run(scenario)
    assert (read["status"], read["error"]["code"]) == ("failed", "server_error")
    events_found = events(body)
    assert types(events_found)[-2:] == ["error", "failed"]
    assert [event["sequence_number"] for event in events_found] == list(range(len(events_found)))


def test_a_bad_request_is_refused_at_once(two):
    async def scenario(first, second):
        return await first.post(PATH, ask(background=True, temperature=-1))

    assert two.run(scenario).status == 400


def test_it_has_a_place_among_the_requests_until_it_ends(make_rig):
    rig = make_rig(max_concurrency=2)
    counted = asyncio.Event()
    rig.pipeline.batches = [counted, [(0, said("Hi", "stop"))]]

    async def scenario(client):
        name = (await start(client))["id"]
        inside = rig.services.admission.num_inside
        counted.set()
        await ended(client, name)
        await until(lambda: not rig.services.admission.num_inside)
        return inside

    assert rig.run(scenario) == 1


def test_a_server_that_stops_ends_it(two):
    two.first.pipeline.batches = [[(0, said("Hel"))], "forever"]

    async def scenario():
        async with AsgiClient(two.second.app) as second:
            async with AsgiClient(two.first.app) as first:
                name = (await start(first))["id"]
                asyncio.get_running_loop().call_later(0.2, two.first.services.end_streams)
            return (await second.get(f"{PATH}/{name}")).json

    read = asyncio.run(scenario())
    assert (read["status"], read["error"]["message"]) == ("failed", "the server is shutting down")


def test_without_an_engine_nothing_is_queued(rig, monkeypatch):
    def away(*_):
        raise Unavailable("no engine")

    monkeypatch.setattr("scripted.ScriptedCall.start", away)
    assert rig.post(PATH, ask(background=True)).status == 503
    assert rig.services.admission.num_inside == 0


async def followed_forever(two, first, second):
    """A stream of a response that does not end by itself, once its first events came."""
    two.first.pipeline.batches = [[(0, said("Hel"))], "forever"]
    name = (await start(first))["id"]
    request = second.begin("GET", f"{PATH}/{name}?stream=true")
    await until(lambda: b"output_text.delta" in request.answer.body)
    return name, request


def test_a_stream_ends_when_its_client_leaves(two):
    async def scenario(first, second):
        name, request = await followed_forever(two, first, second)
        request.hang_up()
        await asyncio.wait_for(request.task, PATIENCE_S)
        still = (await second.get(f"{PATH}/{name}")).json["status"]
        await second.post(f"{PATH}/{name}/cancel", {})
        return still

    assert two.run(scenario) == "in_progress"


def test_a_stream_ends_with_its_worker_and_goes_on_elsewhere(two):
    async def scenario(first, second):
        name, request = await followed_forever(two, first, second)
        two.second.services.end_streams()
        await asyncio.wait_for(request.task, PATIENCE_S)
        seen = events(request.answer.body)
        await first.post(f"{PATH}/{name}/cancel", {})
        rest = await first.get(f"{PATH}/{name}?stream=true&starting_after={seen[-1]['sequence_number']}")
        return seen, events(rest.body)

    seen, rest = two.run(scenario)
    assert types(seen)[-1] == "output_text.delta"
    assert rest == []


def test_what_cannot_be_written_is_not_computed(two, monkeypatch):
    def full(*_):
        raise sqlite3.OperationalError("disk is full")

    monkeypatch.setattr(ResponseDatabase, "update", full)
    monkeypatch.setattr(leases, "LEASE_S", 0.3)
    two.first.pipeline.batches = [[(0, said("Hel"))], "forever"]

    async def scenario(first, second):
        name = (await start(first))["id"]
        await until(lambda: two.first.pipeline.calls[0].closed)
        await until(lambda: two.first.services.admission.num_inside == 0)
        return (await ended(second, name)).json

    assert two.run(scenario)["status"] == "failed"
