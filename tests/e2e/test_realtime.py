"""Live speech against real processes: a small Whisper of random weights, OpenAI's client, vLLM's sample."""

from __future__ import annotations

import base64
import json
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from openai import OpenAI
from patience import PATIENCE_S
from small_models import LONG, SAID
from sound_files import sound_file, tone

pytest.importorskip("websockets")  # of the extra `audio`

from closed_clients import closed_later
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

SOUND = "response.output_audio.delta"
COMPLETED = "conversation.item.input_audio_transcription.completed"
DELTA = "conversation.item.input_audio_transcription.delta"


@pytest.fixture
def server(small):
    return small


def pcm(seconds, rate):
    """Loud and soft by turns, as speech is."""
    at = np.arange(round(seconds * rate))
    level = np.where(at * 10 // rate % 2, 300, 9000)
    return (level * np.sin(at * (2 * np.pi * 440 / rate))).astype("<i2").tobytes()


def encoded(data):
    return base64.b64encode(data).decode()


def test_openais_client(server):
    client = closed_later(OpenAI(base_url=f"{server.url}/v1", api_key="none"))
    with client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        sound = {"transcription": {"model": "whisper", "language": "en"}, "turn_detection": None}
        connection.session.update(session={"type": "transcription", "audio": {"input": sound}})
        for _ in range(5):
            connection.input_audio_buffer.append(audio=encoded(pcm(0.5, 24_000)))
        connection.input_audio_buffer.commit()
        events = []
        for event in connection:
            events.append(event)
            if event.type in (COMPLETED, "error"):
                break
    assert events[0].type == "session.created"
    assert events[-1].type == COMPLETED, events[-1]
    assert "".join(event.delta for event in events if event.type == DELTA) == events[-1].transcript
    assert events[-1].usage.seconds == pytest.approx(2.5, abs=0.01)


def until_done(connection, also=""):
    """The events up to the end of a response, or the first of another kind."""
    events = []
    for event in connection:
        assert event.type != "error", event
        events.append(event)
        if event.type in ("response.done", also):
            break
    return events


def ask(connection, text, sound):
    """A turn of text and sound; the small model understands no word of it."""
    parts = [{"type": "input_text", "text": text}, {"type": "input_audio", "audio": encoded(sound)}]
    connection.conversation.item.create(item={"type": "message", "role": "user", "content": parts})
    connection.response.create()


def test_a_conversation_in_speech(server):
    """Turns that are heard, answered and spoken; the last reply is interrupted by speech."""
    client = closed_later(OpenAI(base_url=f"{server.url}/v1", api_key="none"))
    with client.realtime.connect(model="assistant") as connection:
        vad = {"type": "server_vad", "silence_duration_ms": 200}
        connection.session.update(session={"type": "realtime", "audio": {"input": {"turn_detection": vad}}})
        for _ in range(2):
            ask(connection, "Hello", pcm(1, 24_000))
            events = until_done(connection)
            assert events[-1].response.status == "completed", events[-1].response.status_details
            assert events[-1].response.output[0].content[0].transcript == SAID
            sound = [event.delta for event in events if event.type == SOUND]
            assert len(b"".join(map(base64.b64decode, sound))) > 10_000
        ask(connection, "Go on", pcm(1, 24_000))
        events = until_done(connection, SOUND)
        assert events[-1].type == SOUND  # before the text's end
        connection.input_audio_buffer.append(audio=encoded(bytes(24_000) + pcm(1, 24_000)))
        events = until_done(connection)
        assert "input_audio_buffer.speech_started" in [event.type for event in events]
        done = events[-1].response
        assert (done.status, done.status_details.reason) == ("cancelled", "turn_detected")
        assert LONG.startswith(done.output[0].content[0].transcript)
        server.wait_for(lambda: server.metric("vllm:num_requests_running", "writer") == 0)
        connection.input_audio_buffer.append(audio=encoded(bytes(24_000)))
        failed = until_done(connection)[-1].response.status_details.error
        assert failed.message == "line `heard`: there is no speech in the sound"
    server.wait_for(lambda: "braid:open_sockets 0.0" in httpx.get(f"{server.url}/metrics").text)


def test_a_recording_of_a_chat_is_heard(server):
    file = encoded(sound_file(tone(1), "wav", "pcm_s16le"))
    client = closed_later(OpenAI(base_url=f"{server.url}/v1", api_key="none"))
    part = {"type": "input_audio", "input_audio": {"data": file, "format": "wav"}}
    reply = client.chat.completions.create(
        model="assistant", messages=[{"role": "user", "content": [{"type": "text", "text": "Hear:"}, part]}]
    )
    assert reply.choices[0].message.content == SAID


def opened(server):
    socket = connect(f"{server.url.replace('http', 'ws')}/v1/realtime", proxy=None)
    assert json.loads(socket.recv(PATIENCE_S))["type"] == "session.created"
    return socket


def say(socket, sound):
    """What the client of vLLM's documentation sends for an utterance."""
    socket.send(json.dumps({"type": "session.update", "model": "whisper"}))
    socket.send(json.dumps({"type": "input_audio_buffer.commit"}))
    for at in range(0, len(sound), 4096):
        audio = encoded(sound[at : at + 4096])
        socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
    socket.send(json.dumps({"type": "input_audio_buffer.commit", "final": True}))


def after_deltas(socket):
    """The event that ends the deltas, and their text."""
    deltas = ""
    while (event := json.loads(socket.recv(PATIENCE_S)))["type"] == "transcription.delta":
        deltas += event["delta"]
    return event, deltas


def sample_of_vllm(server, sound):
    """The event `transcription.done` of an utterance on a socket of its own."""
    with opened(server) as socket:
        say(socket, sound)
        event, deltas = after_deltas(socket)
    assert event["type"] == "transcription.done", event
    assert event["text"] == deltas
    return event


def test_vllms_sample(server):
    usage = sample_of_vllm(server, pcm(2, 16_000))["usage"]
    assert 0 < usage["prompt_tokens"] < usage["total_tokens"]


def test_a_client_that_hangs_up_leaves_nothing(server):
    running = "vllm:num_requests_running"
    for _ in range(2):
        socket = connect(f"{server.url.replace('http', 'ws')}/v1/realtime", proxy=None)
        socket.recv(PATIENCE_S)
        audio = {"type": "input_audio_buffer.append", "audio": encoded(pcm(40, 16_000))}
        socket.send(json.dumps(audio))
        socket.send(json.dumps({"type": "input_audio_buffer.commit", "final": True}))
        socket.socket.close()
    server.wait_for(lambda: "braid:open_sockets 0.0" in httpx.get(f"{server.url}/metrics").text)
    server.wait_for(lambda: server.metric(running, "whisper") == 0)
    assert sample_of_vllm(server, pcm(1, 16_000))["usage"]["total_tokens"] > 0


def transcribed(server):
    """The reply to a recording of two seconds."""
    file = ("sound.wav", sound_file(tone(2), "wav", "pcm_s16le"))
    return httpx.post(f"{server.url}/v1/audio/transcriptions", files={"file": file}, timeout=PATIENCE_S)


def test_a_killed_engine_fails_what_it_reads_and_comes_back(server):
    """A transcription and an utterance are in the engine host when it is killed; the socket stays open."""
    with opened(server) as socket, ThreadPoolExecutor() as threads:
        host = server.host()
        host.suspend()
        recording = threads.submit(transcribed, server)
        say(socket, pcm(2, 16_000))
        time.sleep(0.5)  # until both have sent their windows; where one has not, it fails all the same
        host.kill()
        refused = recording.result()
        event, _ = after_deltas(socket)
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        assert (event["type"], event["code"]) == ("error", "processing_error"), event
        server.all_ready()
        assert transcribed(server).status_code == 200
        assert server.host().pid != host.pid
        say(socket, pcm(2, 16_000))
        event, deltas = after_deltas(socket)
        assert (event["type"], event["text"]) == ("transcription.done", deltas)
    server.wait_for(lambda: server.metric("vllm:num_requests_running", "whisper") == 0)


def test_a_worker_that_is_replaced_closes_its_sockets(server):
    with connect(f"{server.url.replace('http', 'ws')}/v1/realtime", proxy=None) as socket:
        socket.recv(PATIENCE_S)
        server.reload()
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(PATIENCE_S)
        assert closed.value.rcvd.code == 1012
