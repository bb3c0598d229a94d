"""Responses that are stored: read, continued, listed, deleted."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest
from patience import PATIENCE_S
from responses_bodies import PATH, ask, events
from scripted import said

from server.apis.responses.database import ResponseDatabase


async def post(client, **fields):
    answer = await client.post(PATH, ask(**fields))
    assert answer.status == 200, answer.body
    return answer.json


def test_a_stored_response_equals_the_reply(rig):
    async def scenario(client):
        made = await post(client)
        return made, (await client.get(f"{PATH}/{made['id']}")).json

    made, read = rig.run(scenario)
    assert read == made


def test_a_streamed_response_is_stored_before_its_last_event(rig):
    async def scenario(client):
        last = events((await client.post(PATH, ask(stream=True))).body)[-1]["response"]
        return last, (await client.get(f"{PATH}/{last['id']}")).json

    last, read = rig.run(scenario)
    assert read == last


@pytest.mark.parametrize("prefix", ["/v1", "/v3", "/v3/v1"])
def test_every_prefix_has_the_whole_api(rig, prefix):
    async def scenario(client):
        made = (await client.post(f"{prefix}/responses", ask())).json["id"]
        asked = [await client.get(f"{prefix}/responses/{made}{rest}") for rest in ("", "/input_items")]
        asked.append(await client.ask("DELETE", f"{prefix}/responses/{made}"))
        return [answer.status for answer in asked]

    assert rig.run(scenario) == [200] * 3


def gone(answer, response_id, param="response_id"):
    return answer.status == 404 and answer.error == {
        "message": f"Response with id '{response_id}' not found.",
        "type": "invalid_request_error",
        "param": param,
        "code": 404,
    }


def test_what_is_not_stored_cannot_be_read(rig):
    async def scenario(client):
        made = await post(client, store=False)
        assert made["store"] is False
        return made["id"], await client.get(f"{PATH}/{made['id']}")

    response_id, answer = rig.run(scenario)
    assert gone(answer, response_id)


UNKNOWN = [
    ("GET", "/resp_x"),
    ("DELETE", "/resp_x"),
    ("GET", "/resp_x/input_items"),
    ("POST", "/resp_x/cancel"),
    ("GET", "/resp_x?stream=true"),
]


@pytest.mark.parametrize(("method", "rest"), UNKNOWN)
def test_an_unknown_response_is_not_found(rig, method, rest):
    assert gone(rig.ask(method, PATH + rest), "resp_x")


def test_an_unknown_previous_response_is_not_found(rig):
    assert gone(rig.post(PATH, ask(previous_response_id="resp_x")), "resp_x", "previous_response_id")


def test_a_deleted_response_is_gone(rig):
    async def scenario(client):
        path = f"{PATH}/{(await post(client))['id']}"
        return [await client.ask("DELETE", path), await client.get(path), await client.ask("DELETE", path)]

    deleted, read, again = rig.run(scenario)
    assert deleted.json["object"] == "response.deleted"
    assert deleted.json["deleted"] is True
    assert (read.status, again.status) == (404, 404)


def test_a_response_continues_another_without_its_instructions(rig):
    async def scenario(client):
        first = await post(client, input="one", instructions="be brief")
        second = await post(client, input="two", previous_response_id=first["id"])
        assert second["previous_response_id"] == first["id"]
        return await post(client, input="three", previous_response_id=second["id"])

    rig.run(scenario)
    heard = [(message["role"], message["content"][0]["text"]) for message in rig.pipeline.asked.messages]
    assert heard == [
        ("user", "one"),
        ("assistant", "Hello"),
        ("user", "two"),
        ("assistant", "Hello"),
        ("user", "three"),
    ]


def test_an_item_may_be_referred_to(rig):
    async def scenario(client):
        first = await post(client, input="one")
        item = {"type": "item_reference", "id": first["output"][0]["id"]}
        await post(client, input=[item, {"role": "user", "content": "two"}])

    rig.run(scenario)
    assert [one["role"] for one in rig.pipeline.asked.messages] == ["assistant", "user"]


def test_input_items_are_listed_in_pages(rig):
    async def scenario(client):
        turns = [{"role": "user", "content": str(i)} for i in range(5)]
        path = f"{PATH}/{(await post(client, input=turns))['id']}/input_items"
        newest = (await client.get(path + "?limit=2")).json
        next_page = (await client.get(f"{path}?limit=2&after={newest['last_id']}")).json
        oldest = (await client.get(path + "?order=asc")).json
        return newest, next_page, oldest

    def texts(listed):
        return [item["content"][0]["text"] for item in listed["data"]]

    newest, next_page, oldest = rig.run(scenario)
    assert (texts(newest), newest["has_more"]) == (["4", "3"], True)
    assert texts(next_page) == ["2", "1"]
    assert (texts(oldest), oldest["has_more"]) == (list("01234"), False)
    assert oldest["first_id"] == oldest["data"][0]["id"]


BAD_QUERIES = [
    ("/input_items?limit=0", "limit"),
    ("/input_items?limit=x", "limit"),
    ("/input_items?order=up", "order"),
    ("/input_items?after=msg_x", "after"),
    ("?stream=perhaps", "stream"),
    ("?starting_after=1", "starting_after"),
    ("?stream=true&starting_after=-1", "starting_after"),
    ("?include[]=everything", "include"),
    ("?stream=true", "stream"),
    ("?include_obfuscation=true", "include_obfuscation"),
]


@pytest.mark.parametrize(("query", "param"), BAD_QUERIES)
def test_a_bad_query_is_named(rig, query, param):
    async def scenario(client):
        return await client.get(f"{PATH}/{(await post(client))['id']}{query}")

    answer = rig.run(scenario)
    assert (answer.status, answer.error["param"]) == (400, param)


def test_an_id_in_use_is_refused(rig):
    async def scenario(client):
        await post(client, request_id="resp_mine")
        return await client.post(PATH, ask(request_id="resp_mine"))

    answer = rig.run(scenario)
    assert (answer.status, answer.error["param"]) == (400, "request_id")


def test_a_synchronous_response_is_not_cancelled(rig):
    async def scenario(client):
        return await client.post(f"{PATH}/{(await post(client))['id']}/cancel", {})

    answer = rig.run(scenario)
    assert answer.status == 400
    assert answer.error["message"] == "Cannot cancel a synchronous response."
    assert answer.error["type"] == "invalid_request_error"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_cancels_its_call(rig, stream):
    rig.pipeline.batches = [[(0, said("Hel"))], "forever"]

    async def scenario(client):
        request = client.begin_post(PATH, ask(stream=stream))
        while not rig.pipeline.calls or not (request.answer.writes or not stream):
            await asyncio.sleep(0.01)
        request.hang_up()
        await asyncio.wait_for(request.task, PATIENCE_S)

    rig.run(scenario)
    assert rig.pipeline.calls[0].closed


def test_nothing_is_stored_when_the_store_is_disabled(make_rig):
    rig = make_rig(responses_store=False)

    async def scenario(client):
        created = await post(client)
        assert created["store"] is False
        return [
            await client.get(f"{PATH}/{created['id']}"),
            await client.ask("DELETE", f"{PATH}/{created['id']}"),
            await client.post(PATH, ask(background=True)),
        ]

    read, deleted, background = rig.run(scenario)
    assert (read.status, deleted.status, background.status) == (404, 404, 400)
    assert background.error["param"] == "background"


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_that_cannot_be_stored_is_still_sent(rig, monkeypatch, stream):
    def full(*_):
        raise sqlite3.OperationalError("disk is full")

    monkeypatch.setattr(ResponseDatabase, "add", full)
    answer = rig.post(PATH, ask(stream=stream))
    reply = events(answer.body)[-1]["response"] if stream else answer.json
    assert (reply["status"], reply["store"]) == ("completed", False)


def test_a_store_that_cannot_be_read_is_unavailable(rig, monkeypatch):
    def broken(*_):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(ResponseDatabase, "get", broken)
    assert rig.get(PATH + "/resp_x").status == 503
