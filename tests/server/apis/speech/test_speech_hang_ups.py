"""Clients that leave: in the middle of an upload, while their sound is decoded, and while they get text; and
requests that others cancel.
"""

import asyncio
import threading
import time

import pytest
from patience import PATIENCE_S
from speech_rig import TRANSCRIPTIONS, SpeechPipeline, decoded, form, heard, recording

import server.apis.speech.endpoint as endpoint
from pipelines.base.cancellation import check_cancelled
from pipelines.base.errors import Unavailable


class EndlessPipeline(SpeechPipeline):
    """Its calls say a word and go on until they are closed."""

    def __init__(self):
        super().__init__(lambda request: [heard(" Guten", language="de")])

    def prepare(self, generation, client, tenant="", earlier=None, trace=None):
        call = super().prepare(generation, client, tenant, earlier)
        call._batches = [*call._batches, "forever"]
        return call


class DyingPipeline(SpeechPipeline):
    """Its calls say a word, then their engine dies, until `dies` is False."""

    dies = True

    def prepare(self, generation, client, tenant="", earlier=None, trace=None):
        call = super().prepare(generation, client, tenant, earlier)
        if self.dies:
            call._batches = [*call._batches[:1], Unavailable("The engine stopped.")]
        return call


async def until(condition):
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


async def leave(request):
    request.hang_up()
    await asyncio.wait_for(request.task, PATIENCE_S)


def test_a_slow_upload_holds_no_place_and_no_memory_after_it(make_rig):
    rig = make_rig(EndlessPipeline())
    body, headers = form(recording() + bytes(200_000))

    async def scenario(client):
        pieces = [body[at : at + 50_000] for at in range(0, 150_000, 50_000)]
        sent = {"content-type": headers["content_type"], "content-length": str(len(body))}
        request = client.begin("POST", TRANSCRIPTIONS, pieces, sent, stalls=True)
        await until(lambda: rig.services.arriving.num_bytes >= 100_000)
        held = rig.services.admission.num_inside
        await leave(request)
        return held

    assert rig.run(scenario) == 0
    assert (rig.services.arriving.num_bytes, rig.services.admission.num_inside) == (0, 0)
    assert not rig.pipeline.calls


def test_decoding_ends_when_its_client_leaves(make_rig, monkeypatch):
    begun, ended = threading.Event(), threading.Event()

    def endless(data, limits):
        begun.set()
        try:
            while True:
                check_cancelled()
                time.sleep(0.001)
        finally:
            ended.set()

    monkeypatch.setattr(endpoint, "decode_audio", endless)
    rig = make_rig(EndlessPipeline())
    body, headers = form(recording())

    async def scenario(client):
        request = client.begin_post(TRANSCRIPTIONS, body, **headers)
        await until(begun.is_set)
        assert rig.services.admission.num_inside == 1
        await leave(request)
        assert rig.services.admission.num_inside == 0
        await until(ended.is_set)

    rig.run(scenario)
    assert not rig.pipeline.calls


@pytest.mark.parametrize("fields", [{}, {"stream": "true"}, {"long_form": "sequential"}])
def test_reading_ends_when_its_client_leaves(make_rig, monkeypatch, fields):
    monkeypatch.setattr(endpoint, "decode_audio", decoded)
    rig = make_rig(EndlessPipeline())
    body, headers = form(recording(70.0), language="de", **fields)

    async def scenario(client):
        request = client.begin_post(TRANSCRIPTIONS, body, **headers)
        await until(lambda: rig.pipeline.calls and rig.pipeline.calls[0].started)
        if fields.get("stream"):
            await request.answer.wrote.wait()
        assert rig.services.admission.num_inside == 1
        await leave(request)
        await until(lambda: all(call.closed for call in rig.pipeline.calls if call.started))

    rig.run(scenario)
    assert rig.services.admission.num_inside == 0
    assert rig.services.sounds.num_bytes == 0


@pytest.mark.parametrize("fields", [{}, {"stream": "true"}, {"long_form": "sequential"}])
def test_an_engine_that_dies_fails_the_request_and_leaves_nothing(make_rig, monkeypatch, fields):
    monkeypatch.setattr(endpoint, "decode_audio", decoded)
    rig = make_rig(DyingPipeline())
    dying, body = form(recording(70.0), language="de", **fields), form(recording(), language="de")

    async def scenario(client):
        failed = await client.post(TRANSCRIPTIONS, dying[0], **dying[1])
        rig.pipeline.dies = False
        return failed, await client.post(TRANSCRIPTIONS, body[0], **body[1])

    failed, after = rig.run(scenario)
    if fields.get("stream"):
        assert b'"error"' in failed.body
        assert b"The engine stopped" in failed.body
        assert b"transcript.text.done" not in failed.body
    else:
        assert (failed.status, failed.headers["retry-after"]) == (503, "2")
        assert "The engine stopped" in failed.error["message"]
    assert (after.status, after.json["text"]) == (200, "Guten Tag")
    assert (rig.services.admission.num_inside, rig.services.sounds.num_bytes) == (0, 0)
    assert all(call.closed for call in rig.pipeline.calls if call.started)


@pytest.mark.parametrize("fields", [{}, {"stream": "true"}, {"long_form": "sequential"}])
def test_a_cancelled_window_ends_the_whole_request(make_rig, monkeypatch, fields):
    monkeypatch.setattr(endpoint, "decode_audio", decoded)
    rig = make_rig(SpeechPipeline(lambda request: [heard(" Guten", language="de"), heard(finish="abort")]))
    body, headers = form(recording(70.0), language="de", **fields)
    reply = rig.run(lambda client: client.post(TRANSCRIPTIONS, body, **headers))
    if fields.get("stream"):
        assert b"The request was cancelled." in reply.body
        assert b"transcript.text.done" not in reply.body
    else:
        assert (reply.status, reply.error["message"]) == (400, "The request was cancelled.")
    assert len([call for call in rig.pipeline.calls if call.started]) <= 3
    assert all(call.closed for call in rig.pipeline.calls if call.started)
    assert (rig.services.admission.num_inside, rig.services.sounds.num_bytes) == (0, 0)
