"""Sockets as such: who may open one, how many, their bounds in bytes and in time, and how they end."""

from __future__ import annotations

import json
import os
import time
from contextlib import AsyncExitStack, ExitStack, suppress
from socket import SHUT_RDWR

import pytest
from patience import PATIENCE_S
from raw_server import RawServer, read_all, request
from realtime_rig import FINAL, REALTIME, Socket, append, one_word_each_second, silence
from scripted import ScriptedPipeline
from speech_rig import SpeechPipeline, heard

pytest.importorskip("websockets")  # of the extra `audio`

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.sync.client import connect

from pipelines.telemetry import deferred
from pipelines.telemetry.registry import labelled
from server.http.bounded_socket import MAX_FRAGMENTS, MAX_MESSAGE_BYTES


def handshake(rig, path=REALTIME, **headers):
    """The reply to a handshake without a socket behind it."""

    async def scenario(_):
        socket = Socket(rig.app, path, **headers)
        reply = await socket.connect()
        socket.hang_up()
        await socket.ended()
        return reply

    return rig.run(scenario)


# --- who may open one


@pytest.mark.parametrize(
    ("headers", "status", "subprotocol"),
    [
        ({}, 401, None),
        ({"authorization": "Bearer wrong"}, 401, None),
        ({"authorization": "Bearer secret"}, 101, None),
        ({"x_api_key": "secret"}, 101, None),
        ({"sec-websocket-protocol": "realtime, openai-insecure-api-key.secret"}, 101, "realtime"),
        ({"sec-websocket-protocol": "openai-insecure-api-key.secret"}, 101, "openai-insecure-api-key.secret"),
        ({"sec-websocket-protocol": "realtime, openai-insecure-api-key.wrong"}, 401, None),
    ],
)
def test_a_key_is_required(make_rig, headers, status, subprotocol):
    reply = handshake(make_rig(SpeechPipeline(), api_keys=("secret",)), **headers)
    assert reply.get("status", 101) == status
    assert reply.get("subprotocol") == subprotocol
    if status == 401:
        assert reply["json"]["error"]["type"] == "AuthenticationError"
        assert (b"www-authenticate", b"Bearer") in reply["headers"]


@pytest.mark.parametrize(
    ("origin", "allowed", "status"),
    [
        ("http://test", (), 101),
        ("http://localhost:3000", (), 101),
        ("https://other.example", (), 403),
        ("https://test.other.example", (), 403),
        ("null", (), 403),
        ("https://other.example", ("https://other.example",), 101),
        ("https://other.example", ("*",), 101),
    ],
)
def test_pages_of_other_origins_are_refused(make_rig, origin, allowed, status):
    reply = handshake(make_rig(SpeechPipeline(), cors_origins=allowed), origin=origin)
    assert reply.get("status", 101) == status


def test_pages_of_other_origins_are_refused_with_a_key_too(make_rig):
    rig = make_rig(SpeechPipeline(), api_keys=("secret",))
    reply = handshake(rig, origin="https://other.example", authorization="Bearer secret")
    assert reply["status"] == 403


def test_a_foreign_host_name_is_refused(make_rig):
    assert handshake(make_rig(SpeechPipeline()), host="evil.example")["status"] == 403


@pytest.mark.parametrize(("path", "status"), [("/v1/nothing", 404), ("/v1/chat/completions", 404)])
def test_only_some_paths_are_for_sockets(make_rig, path, status):
    reply = handshake(make_rig(), path)
    assert (reply["status"], reply["json"]["error"]["code"]) == (status, status)


@pytest.mark.parametrize("prefix", ["/v1", "/v3", "/v3/v1"])
def test_every_prefix_has_it_and_plain_requests_are_not_found(make_rig, prefix):
    rig = make_rig(SpeechPipeline())
    assert handshake(rig, f"{prefix}/realtime")["type"] == "websocket.accept"
    answer = rig.get(f"{prefix}/realtime")
    assert answer.status == 404
    assert "is for WebSockets" in answer.body.decode()


def test_at_most_so_many_are_open(make_rig):
    rig = make_rig(SpeechPipeline(), max_sockets=1)

    async def scenario(_):
        async with Socket(rig.app):
            refused = await Socket(rig.app).connect()
        async with Socket(rig.app):
            return refused

    refused = rig.run(scenario)
    assert refused["status"] == 429
    assert (b"retry-after", b"1") in refused["headers"]


def test_sockets_of_one_key_leave_places(make_rig):
    rig = make_rig(SpeechPipeline(), max_sockets=10, api_keys=("ann", "ben"))

    async def scenario(_):
        async with AsyncExitStack() as stack:
            for _ in range(8):
                await stack.enter_async_context(Socket(rig.app, authorization="Bearer ann"))
            refused = await Socket(rig.app, authorization="Bearer ann").connect()
            await stack.enter_async_context(Socket(rig.app, authorization="Bearer ben"))
            return refused

    refused = rig.run(scenario)
    assert refused["status"] == 429


def test_sockets_are_counted(make_rig):
    rig = make_rig(SpeechPipeline())
    requests = [labelled("http_requests", REALTIME, "GET", kind) for kind in ("1xx", "4xx")]

    async def scenario(_):
        before = labelled("braid:open_sockets")._value.get()
        async with Socket(rig.app):
            return labelled("braid:open_sockets")._value.get() - before

    before = [counter._value.get() for counter in requests]
    assert rig.run(scenario) == 1
    handshake(rig, origin="https://other.example")
    deferred.catch_up()
    assert [counter._value.get() - was for counter, was in zip(requests, before, strict=True)] == [1, 1]


# --- on a real connection


@pytest.fixture
def serve(make_rig):
    with ExitStack() as stack:

        def start(script=one_word_each_second, pipeline=None, uvicorn=None, **settings):
            rig = make_rig(pipeline or SpeechPipeline(script), **settings)
            server = stack.enter_context(RawServer(rig.app, **(uvicorn or {})))
            server.rig = rig
            return server

        yield start


def open_socket(server, **options):
    socket = connect(f"ws://127.0.0.1:{server.port}{REALTIME}", proxy=None, max_size=None, **options)
    assert json.loads(socket.recv(PATIENCE_S))["type"] == "session.created"
    return socket


def close_code(socket):
    """Reads until the server closes."""
    try:
        while True:
            socket.recv(PATIENCE_S)
    except ConnectionClosed as closed:
        return closed.rcvd and closed.rcvd.code


def wait_until(condition):
    ends_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ends_s
        time.sleep(0.01)


def test_a_message_may_have_16_mebibytes(serve):
    server = serve()
    with open_socket(server) as socket:
        largest = json.dumps(append(silence(260)))
        assert 0 < MAX_MESSAGE_BYTES - len(largest) < 8 << 20
        socket.send(largest + " " * (MAX_MESSAGE_BYTES - len(largest)))
        socket.send(json.dumps(FINAL))
        assert json.loads(socket.recv(PATIENCE_S))["text"] == ""
        socket.send(" " * (MAX_MESSAGE_BYTES + 1))
        assert close_code(socket) == 1009


def test_a_message_has_so_many_fragments(serve):
    with open_socket(serve()) as socket:
        head = Frame(Opcode.TEXT, b"", fin=False).serialize(mask=True)
        more = Frame(Opcode.CONT, b"", fin=False).serialize(mask=True)
        socket.socket.sendall(head + more * (MAX_FRAGMENTS + 1))
        assert close_code(socket) == 1009


def begun_message(server, num_bytes):
    """A socket that has sent so much of one message, and no end."""
    socket = open_socket(server)
    whole = Frame(Opcode.TEXT, bytes(MAX_MESSAGE_BYTES - 1)).serialize(mask=True)
    socket.socket.sendall(whole[:num_bytes])
    return socket


def test_messages_count_among_the_bodies_that_a_worker_reads(serve, monkeypatch):
    """Unfinished ones too; what is held is given back when their sockets end."""
    monkeypatch.setattr("server.http.request_body.MAX_ARRIVING", 2)
    server = serve(max_body_mb=4)
    arriving = server.rig.services.arriving
    size = 3 << 20
    held = [begun_message(server, size) for _ in range(2)]
    wait_until(lambda: arriving.num_bytes > 2 * size - 1000)
    refused = begun_message(server, size)
    assert close_code(refused) == 1013
    with open_socket(server) as short:
        short.send(json.dumps(FINAL))
        assert json.loads(short.recv(PATIENCE_S))["type"] == "transcription.done"
    for socket in held:
        socket.socket.shutdown(SHUT_RDWR)
    wait_until(lambda: arriving.num_bytes == 0)
    with open_socket(server) as long:
        long.send(json.dumps(FINAL) + " " * size)
        assert json.loads(long.recv(PATIENCE_S))["type"] == "transcription.done"
    wait_until(lambda: arriving.num_bytes == 0)


def test_an_idle_socket_is_closed(serve):
    with open_socket(serve(socket_idle_s=0.1)) as socket:
        assert close_code(socket) == 1001


def test_a_socket_whose_text_is_still_to_come_is_not_idle(serve):
    """Where this process was too slow to say something, it has another socket."""

    def script(request):
        time.sleep(0.4)
        return one_word_each_second(request)

    server = serve(script, socket_idle_s=0.1)
    for _ in range(20):
        with open_socket(server) as socket, suppress(ConnectionClosed):
            socket.send(json.dumps(append(silence(1)[:-2] + b"\x00\x70")))
            socket.send(json.dumps(FINAL))
            event = json.loads(socket.recv(PATIENCE_S))
            assert event["type"] in ("transcription.delta", "transcription.done")
            return
    raise AssertionError("every socket was closed while its text was still to come")


def test_a_client_that_does_not_answer_pings_is_closed(serve):
    """It reads nothing: what was sent to it and its connection are given up."""
    server = serve(uvicorn={"ws_ping_interval": 0.05, "ws_ping_timeout": 0.05})
    with server.connect() as connection:
        connection.sendall(upgrade())
        assert read_all(connection).startswith(b"HTTP/1.1 101 ")


def upgrade(*headers, path=REALTIME, method="GET", version="1.1"):
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    wanted = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", key)
    return request(*wanted, *headers, path=path, method=method, version=version)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (upgrade(path="/v1/nothing"), 404),
        (upgrade().replace(b"Version: 13", b"Version: 12"), 400),
        (upgrade().replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"short"), 400),
        (upgrade("X-Long: " + "x" * 10_000), 400),
        (upgrade(*[f"X-{i}: y" for i in range(200)]), 400),
        (upgrade() + b"\x81\x80\x00\x00\x00\x00", 400),
        (upgrade(method="POST", path="/health") + request("Connection: close"), 405),
        (upgrade(version="1.0", path="/health"), 200),
    ],
    ids=["path", "version", "key", "long header", "many headers", "early frames", "method", "http 1.0"],
)
def test_handshakes_that_are_wrong(serve, data, status):
    assert int(serve().talk(data).split(b" ", 2)[1]) == status


def test_a_plain_request_may_come_before_a_socket(serve):
    server = serve()
    with server.connect() as connection:
        connection.sendall(request())
        reply = b""
        while not reply.endswith(b"}") and b"\r\n\r\n" not in reply:
            reply += connection.recv(1 << 16)
        connection.sendall(upgrade())
        while b"session.created" not in reply:
            reply += connection.recv(1 << 16)
        assert b"101 Switching Protocols" in reply


def test_a_handshake_behind_a_request_that_runs_is_refused(serve):
    assert b" 400 " in serve().talk(request() + upgrade()).rpartition(b"HTTP/1.1")[2][:10]


def test_a_head_without_a_library_is_a_plain_request(serve):
    """As where the extra is not installed."""
    reply = serve(uvicorn={"ws": "none"}).talk(upgrade("Connection: close"))
    assert reply.startswith(b"HTTP/1.1 404 ")


def test_a_server_that_ends_closes_its_sockets(serve, make_rig):
    rig = make_rig(SpeechPipeline())
    with RawServer(rig.app) as server:
        socket = open_socket(server)
    assert close_code(socket) in (1012, None)  # the test's server may be in a hurry


def test_refusals_reach_the_client_and_are_no_error_of_the_server(serve, caplog):
    server = serve(api_keys=("secret",))
    with pytest.raises(InvalidStatus) as refused:
        open_socket(server)
    assert refused.value.response.status_code == 401
    assert json.loads(refused.value.response.body)["error"]["code"] == 401
    wait_until(lambda: not server._server.server_state.tasks)
    assert [record.getMessage() for record in caplog.records if record.name == "braid.sockets"] == []


# --- hang-ups


def test_a_client_that_hangs_up_frees_what_it_holds(serve):
    """Its reading is closed within a step, and its place is free."""
    pipeline = SpeechPipeline(lambda request: [heard(" w1")])
    server = serve(pipeline=pipeline)
    prepare = pipeline.prepare

    def prepare_endless(*args, **more):
        call = prepare(*args, **more)
        call._batches = [*call._batches, "forever"]
        return call

    pipeline.prepare = prepare_endless
    socket = open_socket(server)
    socket.send(json.dumps(append(os.urandom(64_000))))
    socket.send(json.dumps(FINAL))
    wait_until(lambda: pipeline.calls and pipeline.calls[0].started)
    admission = server.rig.services.admission
    assert admission.num_inside == 1
    socket.socket.shutdown(SHUT_RDWR)  # to close it would wait for the thread that reads it
    wait_until(lambda: pipeline.calls[0].closed and admission.num_inside == 0)


def test_an_idle_utterance_holds_no_place(serve):
    server = serve()
    with open_socket(server) as socket:
        socket.send(json.dumps({"type": "input_audio_buffer.commit"}))
        socket.send(json.dumps({"type": "?"}))
        socket.recv(PATIENCE_S)
        assert server.rig.services.admission.num_inside == 0


def test_a_server_without_speech_says_so(serve):
    with open_socket(serve(pipeline=ScriptedPipeline())) as socket:
        socket.send(json.dumps(FINAL))
        assert json.loads(socket.recv(PATIENCE_S))["code"] == "model_not_validated"
