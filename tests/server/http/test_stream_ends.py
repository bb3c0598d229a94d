"""How streams end before their time: errors, hang-ups, silence, a shutdown."""

from __future__ import annotations

import asyncio

import pytest
from patience import PATIENCE_S, until
from scripted import HI, said

from pipelines.base.errors import EngineError, RequestError, Unavailable
from server.http import exchange
from server.http.exchange import KEEP_ALIVE

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "hi"}], "stream": True}


def deltas(answer):
    return [event["choices"][0]["delta"] for event in answer.events[:-1] if event["choices"]]


def test_an_error_before_the_first_piece_has_a_status(rig):
    rig.pipeline.batches = [RequestError("token id 999 is out of vocabulary", field="prompt")]
    answer = rig.complete(stream=True)
    assert answer.status == 400
    assert answer.error["param"] == "prompt"


def test_an_error_in_the_middle_goes_into_the_stream(rig):
    rig.pipeline.batches = [[(0, said("a"))], EngineError("a step failed")]
    answer = rig.chat(stream=True)
    assert answer.status == 200
    assert answer.events[-2]["error"] == {
        "message": "a step failed",
        "type": "InternalServerError",
        "param": None,
        "code": 500,
    }
    assert answer.events[-1] == "[DONE]"
    assert rig.pipeline.calls[0].closed


def test_a_fault_in_the_middle_says_nothing_of_its_inside(rig, caplog):
    rig.pipeline.batches = [[(0, said("a"))], ZeroDivisionError("secret")]
    answer = rig.chat(stream=True)
    assert "secret" not in answer.body.decode()
    assert "Internal server error" in answer.events[-2]["error"]["message"]
    assert "secret" in caplog.text


def test_a_hang_up_closes_the_call_at_once(rig):
    rig.pipeline.batches = [[(0, said("a"))], "forever"]

    async def scenario(client):
        request = client.begin_post(CHAT, BODY)
        await asyncio.wait_for(request.answer.wrote.wait(), PATIENCE_S)
        assert not rig.pipeline.calls[0].closed
        request.hang_up()
        await asyncio.wait_for(request.task, PATIENCE_S)
        assert rig.pipeline.calls[0].closed

    rig.run(scenario)
    assert rig.services.admission.num_inside == 0


def test_a_hang_up_before_the_first_piece_closes_the_call(rig):
    rig.pipeline.batches = ["forever"]

    async def scenario(client):
        request = client.begin_post(CHAT, BODY)
        await until(lambda: rig.pipeline.calls)
        request.hang_up()
        await asyncio.wait_for(request.task, PATIENCE_S)

    rig.run(scenario)
    assert rig.pipeline.calls[0].closed
    assert rig.services.admission.num_inside == 0


def test_a_hang_up_ends_a_reply_that_is_no_stream(rig):
    rig.pipeline.batches = ["forever"]

    async def scenario(client):
        request = client.begin_post(CHAT, {**BODY, "stream": False})
        await until(lambda: rig.pipeline.calls)
        request.hang_up()
        await asyncio.wait_for(request.task, PATIENCE_S)

    rig.run(scenario)
    assert rig.pipeline.calls[0].closed


def test_a_cancelled_stream_closes_its_call(rig):
    rig.pipeline.batches = [[(0, said("a"))], "forever"]

    async def scenario(client):
        request = client.begin_post(CHAT, BODY)
        await asyncio.wait_for(request.answer.wrote.wait(), PATIENCE_S)
        request.task.cancel()
        await asyncio.wait({request.task})

    rig.run(scenario)
    assert rig.pipeline.calls[0].closed
    assert rig.services.admission.num_inside == 0


def test_a_silent_stream_is_kept_alive(rig, monkeypatch):
    monkeypatch.setattr(exchange, "KEEP_ALIVE_S", 0.02)
    enough = asyncio.Event()
    rig.pipeline.batches = [[(0, said("a"))], enough, [(0, said("", "stop"))]]

    async def scenario(client):
        request = client.begin_post(CHAT, BODY)
        await until(lambda: request.answer.writes.count(KEEP_ALIVE) >= 2)
        enough.set()
        await request.task
        return request.answer

    answer = rig.run(scenario)
    assert [delta.get("content") for delta in deltas(answer)] == ["", "a", None]


def test_a_stream_that_talks_needs_no_keep_alive(rig):
    assert KEEP_ALIVE not in rig.chat(stream=True).writes


async def after_the_opening(client, opened):
    """The whole answer of a stream whose model goes on when the stream has begun."""
    request = client.begin_post(CHAT, BODY)
    await asyncio.wait_for(request.answer.wrote.wait(), PATIENCE_S)
    opened.set()
    await request.task
    return request.answer


def test_a_late_first_piece_does_not_hold_back_the_opening(rig, monkeypatch):
    monkeypatch.setattr("server.http.streaming.FIRST_PIECE_S", 0.02)
    opened = asyncio.Event()
    rig.pipeline.batches = [opened, *HI]
    answer = rig.run(lambda client: after_the_opening(client, opened))
    assert b'"role"' in answer.writes[0]
    assert b"Hel" not in answer.writes[0]
    assert answer.events[-1] == "[DONE]"


def test_a_failure_after_the_opening_is_an_event(rig, monkeypatch):
    monkeypatch.setattr("server.http.streaming.FIRST_PIECE_S", 0.02)
    opened = asyncio.Event()
    rig.pipeline.batches = [opened, EngineError("a step failed")]
    answer = rig.run(lambda client: after_the_opening(client, opened))
    assert answer.status == 200
    assert answer.events[-2]["error"]["code"] == 500


def test_a_shutdown_tells_open_streams(rig):
    rig.pipeline.batches = [[(0, said("a"))], "forever"]

    async def scenario(client):
        request = client.begin_post(CHAT, BODY)
        await asyncio.wait_for(request.answer.wrote.wait(), PATIENCE_S)
        rig.services.end_streams()
        await asyncio.wait_for(request.task, PATIENCE_S)
        return request.answer

    answer = rig.run(scenario)
    assert answer.events[-2]["error"]["message"] == "the server is shutting down"
    assert answer.events[-1] == "[DONE]"


@pytest.mark.parametrize("stream", [False, True])
def test_an_unavailable_engine_is_a_503_with_retry_after(rig, stream):
    rig.pipeline.batches = [Unavailable("the engine is being restarted")]
    answer = rig.chat(stream=stream)
    assert answer.status == 503
    assert answer.headers["retry-after"] == "2"
