"""Braid under Ray Serve on this machine: `make test-ray`, which has an environment of its own for it."""

from __future__ import annotations

import base64
import json
import socket
from importlib.util import find_spec

import httpx
import numpy as np
import psutil
import pytest
from openai import OpenAI
from ray_cluster import FACTS, NUM_REPLICAS, PATIENCE_S, long_chat, named, turn
from server_process import ROOT

LEFT_S = 1.0
"""Within which the blocks of a client that leaves are free."""
COMPLETED = "conversation.item.input_audio_transcription.completed"
DELTA = "conversation.item.input_audio_transcription.delta"
SOUND = {"transcription": {"model": "heard", "language": "en"}, "turn_detection": None}
pytestmark = [
    pytest.mark.breadth,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs ray (`make test-ray` installs it)"),
]


def test_the_openai_client_and_its_errors(ray_cluster):
    with OpenAI(base_url=f"{ray_cluster.url}/v1", api_key="none", timeout=PATIENCE_S) as client:
        assert next(iter(client.models.list())).id == "braid-demo"
        question = [{"role": "user", "content": "What is the capital of France?"}]
        reply = client.chat.completions.create(model="braid-demo", messages=question, temperature=0)
        assert "Paris" in reply.choices[0].message.content
        pieces = client.chat.completions.create(
            model="braid-demo", messages=question, temperature=0, stream=True
        )
        text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
        assert text == reply.choices[0].message.content
        response = client.responses.create(
            model="braid-demo", input="Hello!", extra_headers={"X-Session-ID": "r"}
        )
        assert response.id.count("_") == 2, "it names its replica"
        again = client.responses.retrieve(response.id, extra_headers={"X-Session-ID": "r"})
        assert again.output_text == response.output_text
    assert turn(ray_cluster.url, 0, max_tokens=-1).status_code == 400


@pytest.mark.parametrize("named_by", ["header", "prompt_cache_key", "user", "nothing"])
def test_later_turns_of_a_session_are_cached_however_it_is_named(ray_cluster, named_by):
    served_by = set()
    for session in range(8):
        name = f"{named_by} {session}"
        headers = {"X-Session-ID": name} if named_by == "header" else {}
        more = {named_by: name} if named_by in ("prompt_cache_key", "user") else {}
        messages = [{"role": "user", "content": f"{name} {FACTS} What is the capital of France?"}]
        cached = []
        with OpenAI(base_url=f"{ray_cluster.url}/v1", api_key="none", timeout=PATIENCE_S) as client:
            for _ in range(4):
                reply = client.chat.completions.create(
                    model="braid-demo", messages=messages, max_tokens=4, extra_headers=headers, **more
                )
                cached.append(reply.usage.prompt_tokens_details.cached_tokens)
            response = client.responses.create(
                model="braid-demo", input=messages[0]["content"], extra_headers=headers, **more
            )
            served_by.add(response.id.split("_")[1])
        assert cached[0] < 100 < min(cached[1:]), cached
    assert len(served_by) == NUM_REPLICAS, "each replica has sessions"


def test_a_stored_response_is_found_without_a_session(ray_cluster):
    seen = set()
    with OpenAI(base_url=f"{ray_cluster.url}/v1", api_key="none", timeout=PATIENCE_S) as client:
        for number in range(8):
            response = client.responses.create(model="braid-demo", input=f"Hello, I am number {number}!")
            seen.add(response.id.split("_")[1])
            assert client.responses.retrieve(response.id).output_text == response.output_text
            other = {"X-Session-ID": f"other {number}"}
            next_ = client.responses.create(
                model="braid-demo", input="And now?", previous_response_id=response.id, extra_headers=other
            )
            assert next_.id.split("_")[1] == response.id.split("_")[1]
            client.responses.delete(response.id)
    assert len(seen) == NUM_REPLICAS
    gone = httpx.get(f"{ray_cluster.url}/v1/responses/resp_gone_{'0' * 32}", timeout=PATIENCE_S, verify=False)
    assert gone.status_code == 404
    assert "stored by the replica 'gone'" in gone.json()["error"]["message"]


def test_live_speech_by_openais_client(ray_cluster):
    """WebSockets: events pass both ways as they come, a recording is transcribed."""
    with OpenAI(base_url=f"{ray_cluster.url}/v1", api_key="none") as client, listening(client) as heard:
        heard.session.update(session={"type": "transcription", "audio": {"input": SOUND}})
        for _ in range(5):
            heard.input_audio_buffer.append(audio=encoded(12_000))
        heard.input_audio_buffer.commit()
        events = list(until_end(heard))
    assert events[0].type == "session.created"
    assert events[-1].type == COMPLETED, events[-1]
    assert "".join(event.delta for event in events if event.type == DELTA) == events[-1].transcript
    assert events[-1].usage.seconds == pytest.approx(2.5, abs=0.01)


def test_an_error_event_passes_and_the_socket_stays_open(ray_cluster):
    with OpenAI(base_url=f"{ray_cluster.url}/v1", api_key="none") as client, listening(client) as heard:
        unknown = {"transcription": {"model": "none"}}
        heard.session.update(session={"type": "transcription", "audio": {"input": unknown}})
        assert heard.recv().type == "session.created"
        assert "none" in heard.recv().error.message
        heard.session.update(session={"type": "transcription", "audio": {"input": SOUND}})
        assert heard.recv().type == "session.updated"


def test_a_client_of_a_websocket_that_leaves_is_gone(ray_cluster):
    from websockets.sync.client import connect

    url = ray_cluster.url.replace("http", "ws") + "/v1/realtime"
    sockets = [connect(url, proxy=None, open_timeout=PATIENCE_S) for _ in range(3)]
    for websocket in sockets:
        assert json.loads(websocket.recv(PATIENCE_S))["type"] == "session.created"
        audio = {"type": "input_audio_buffer.append", "audio": encoded(24_000 * 60)}
        for event in ({"type": "session.update", "model": "heard"}, audio):
            websocket.send(json.dumps(event))
        websocket.send(json.dumps({"type": "input_audio_buffer.commit", "final": True}))
    assert ray_cluster.load()["braid:open_sockets"] == 3
    for websocket in sockets:
        websocket.socket.close()
    ray_cluster.wait_for(lambda: ray_cluster.load()["braid:open_sockets"] == 0)
    ray_cluster.wait_for(lambda: ray_cluster.load()["vllm:num_requests_running"] == 0)


def listening(client):
    """A session of the API for live speech."""
    return client.realtime.connect(extra_query={"intent": "transcription"})


def encoded(num_samples):
    """16-bit sound in base64."""
    level = 9000 * np.sin(np.arange(num_samples) * (2 * np.pi * 440 / 24_000))
    return base64.b64encode(level.astype("<i2").tobytes()).decode()


def until_end(heard):
    """Events up to that of the whole text, or an error."""
    for event in heard:
        yield event
        if event.type in (COMPLETED, "error"):
            return


LISTENING = {
    "ray::ServeReplica": 2,
    "ray::ProxyActor": 2,
    "ray::ServeController": 1,
    "serve run": 1,
    "ray::DashboardAgent": 4,
    "ray::RuntimeEnvAgent": 1,
    "dashboard/dashboard.py": 2,
    "autoscaler/_private/monitor.py": 1,
    "raylet/raylet": 2,
    "gcs_server": 1,
}
"""Process → how many ports each one of it listens at: docs/scaling.md."""


def test_no_port_opens_beyond_those_documented(ray_cluster):
    ports_of = {}
    for process in ray_cluster.family():
        try:
            sockets, command = process.net_connections("tcp"), " ".join(process.cmdline())
        except psutil.Error:
            continue
        ports = sorted(
            connection.laddr.port for connection in sockets if connection.status == psutil.CONN_LISTEN
        )
        if ports:
            name = next((name for name in LISTENING if name in command), command)
            ports_of.setdefault(name, []).append(ports)
    too_many = {
        name: ports for name, ports in ports_of.items() if len(max(ports, key=len)) > LISTENING.get(name, 0)
    }
    assert too_many == {}
    assert any(ray_cluster.port in ports for ports in ports_of["ray::ProxyActor"])
    assert len(ports_of["ray::ServeReplica"]) == NUM_REPLICAS
    page = (ROOT / "docs" / "scaling.md").read_text()
    assert [name for name in LISTENING if name.split("/")[-1].removeprefix("ray::") not in page] == []


@pytest.mark.parametrize("streams", [True, False], ids=["stream", "whole"])
def test_a_client_that_leaves_frees_its_blocks_within_a_second(ray_cluster, streams):
    taken_s = [left_after_s(ray_cluster, session, streams) for session in range(8)]
    print("a client that left was gone after", ", ".join(f"{each:.2f} s" for each in taken_s))
    assert max(taken_s) < LEFT_S, taken_s


def left_after_s(ray_cluster, session, streams):
    """Seconds from the end of a client's connection, in the middle of a reply, until no block is in use."""

    def load(name):
        return ray_cluster.load()[f"vllm:{name}"]

    body = json.dumps(long_chat(1900, streams))
    fields = {
        "Host": "braid",
        "Content-Type": "application/json",
        "Content-Length": len(body),
        **named(session),
    }
    lines = ["POST /v1/chat/completions HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    with socket.create_connection(("127.0.0.1", ray_cluster.port)) as client:
        client.sendall("\r\n".join([*lines, "", body]).encode())
        if streams:
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        ray_cluster.wait_for(lambda: load("num_requests_running") == 1 and load("kv_cache_usage_perc") > 0)
    return ray_cluster.wait_for(lambda: load("num_requests_running") == load("kv_cache_usage_perc") == 0)
