"""Responses over a WebSocket, kept alive, compacted; images that a model cannot read."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from asgi_socket import AsgiSocket
from codex_tools import EXEC, VIEW, WEB_SEARCH
from openai.types.responses import CompactedResponse, ResponseStreamEvent
from pydantic import TypeAdapter
from scripted import HI, said
from scripted_model import call, serving, write_scripted_model

from server.apis.responses import socket
from server.http import exchange

EVENT = TypeAdapter(ResponseStreamEvent)
PATH = "/v1/responses"
ENDS = ("response.completed", "response.failed", "error")
PIXEL = "data:image/png;base64,iVBORw0KGgo="
LONG = "You are an agent. " * 200
REPLIES = [
    ("Write a summary of this", "They want 42."),
    ("They want 42.", "42"),
    ("left out", "I cannot see it."),
    ("Look", call("view_image", path="a.png")),
    ("files", "a.py"),
    ("List", "I list." + call("exec_command", cmd="ls")),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_scripted_model(folder / "scripted", REPLIES)
    return folder


def create(*items: Any, **more: Any) -> dict[str, Any]:
    given = [{"role": "user", "content": item} if isinstance(item, str) else item for item in items]
    body = {"model": "scripted", "input": given, "tools": [EXEC, VIEW, WEB_SEARCH], "store": False, **more}
    return {"type": "response.create", "stream": True, **body}


async def over_socket(app: Any, talk: Any) -> Any:
    async with AsgiSocket(app, PATH) as client:
        return await talk(client)


def final(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The response in the last event; all events are read by the client's types."""
    for event in events:
        assert EVENT.validate_python(event).type == event["type"]
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    response: dict[str, Any] = events[-1]["response"]
    return response


def test_a_session_sends_only_what_is_new(folder):
    async def talk(client):
        client.say(create({"role": "developer", "content": LONG}, generate=False))
        warmed = final(await client.until(*ENDS))
        client.say(create("List", previous_response_id=warmed["id"]))
        first = final(await client.until(*ENDS))
        output = first["output"][-1]
        result = {"type": "function_call_output", "call_id": output["call_id"], "output": "files: a.py"}
        client.say(create(result, previous_response_id=first["id"]))
        return warmed, first, final(await client.until(*ENDS))

    async def scene():
        async with serving(folder) as client:
            return await over_socket(client._app, talk)

    warmed, first, second = asyncio.run(scene())
    assert (warmed["output"], warmed["status"]) == ([], "completed")
    assert first["output"][-1]["arguments"] == '{"cmd": "ls"}'
    assert second["output"][0]["content"][0]["text"] == "a.py"
    usages = [response["usage"] for response in (warmed, first, second)]
    for before, after in pairwise(usages):
        assert after["input_tokens_details"]["cached_tokens"] > 0.9 * before["input_tokens"]


def test_errors_do_not_end_a_socket(make_rig):
    rig = make_rig()

    async def talk(client):
        events = []
        bad = (
            "{",
            b"x",
            {"type": "session.update"},
            create("a", model="other"),
            create("a", model="tiny", temperature=9),
        )
        for event in (*bad, create("a", model="tiny", previous_response_id="resp_1")):
            client.say(event)
            events.append(await client.event())
        client.say(create("a", model="tiny", tools=[EXEC]))
        return events, final(await client.until(*ENDS))

    async def scene(client):
        return await over_socket(rig.app, talk)

    events_there, response = rig.run(scene)
    assert [event["type"] for event in events_there] == ["error"] * 6
    assert [event["status"] for event in events_there] == [400, 400, 400, 404, 400, 404]
    assert events_there[3]["error"]["code"] == "model_not_found"
    assert events_there[5]["error"]["code"] == "previous_response_not_found"
    assert response["output"][0]["content"][0]["text"] == "Hello"
    assert rig.services.admission.num_inside == 0


def test_a_quiet_socket_and_a_quiet_stream_send_events(make_rig, monkeypatch):
    monkeypatch.setattr(socket, "QUIET_S", 0.02)
    monkeypatch.setattr(exchange, "KEEP_ALIVE_S", 0.01)
    monkeypatch.setattr(exchange, "QUIET_TICKS", 2)
    rig = make_rig()
    rig.pipeline.batches = [[(0, said("a"))], 0.2, [(0, said("", "stop"))]]

    async def talk(client):
        client.say(create("a", model="tiny"))
        return await client.until(*ENDS)

    async def scene(client):
        return await over_socket(rig.app, talk)

    assert {"type": "keepalive"} in rig.run(scene)
    answer = rig.post(PATH, create("a", model="tiny") | {"type": None})
    assert b'event: keepalive\ndata: {"type":"keepalive"}\n\n' in answer.body
    rig.pipeline.batches = HI


def test_a_get_without_a_handshake_is_426(rig):
    answer = rig.get(PATH)
    assert (answer.status, answer.error["type"]) == (426, "UpgradeRequiredError")


def test_a_conversation_is_compacted(folder):
    async def scene():
        async with serving(folder) as client:
            items = [
                {"role": "user", "content": "List 42."},
                {"role": "assistant", "content": "No."},
                {"role": "user", "content": "Do."},
            ]
            body = {"model": "scripted", "input": items}
            compacted = await client.post(PATH + "/compact", body)
            again = await client.post(PATH, {**body, "input": [*compacted.json["output"], *items[:0]]})
            return compacted, again

    compacted, again = asyncio.run(scene())
    items = compacted.json["output"]
    assert [item["type"] for item in items] == ["message", "message", "compaction"]
    read = CompactedResponse.model_validate({**compacted.json, "output": items[-1:]})  # its types lack users
    assert read.usage.output_tokens > 0
    assert again.json["output"][0]["content"][0]["text"] == "42"


def test_an_image_in_a_result_is_left_out_for_models_of_text(folder):
    async def scene():
        async with serving(folder) as client:
            body = create("Look", stream=False) | {"type": None}
            (output,) = (await client.post(PATH, body)).json["output"]
            image = {"type": "input_image", "image_url": PIXEL, "detail": "original"}
            result = {"type": "function_call_output", "call_id": output["call_id"], "output": [image]}
            read = await client.post(PATH, {**body, "input": [*body["input"], output, result]})
            shown = {"role": "user", "content": [image]}
            return read, await client.post(PATH, {**body, "input": [shown]})

    read, shown = asyncio.run(scene())
    assert read.json["output"][0]["content"][0]["text"] == "I cannot see it."
    assert "output;type=input_image" in read.headers["x-braid-ignored-fields"]
    assert shown.status == 400


def test_what_is_longer_than_a_body_is_not_held_for_the_next_turn(make_rig):
    rig = make_rig()
    rig.services.arriving.max_bytes = 6000

    async def talk(client):
        events, before = [], {}
        for _ in range(3):
            client.say(create(LONG, model="tiny", **before))
            events.append((await client.until(*ENDS))[-1])
            before = {"previous_response_id": events[-1].get("response", {}).get("id", "")}
        return events

    async def scene(client):
        return await over_socket(rig.app, talk)

    first, second, third = rig.run(scene)
    assert first["type"] == second["type"] == "response.completed"
    assert third["error"]["code"] == "previous_response_not_found"
