"""What a client may send on a connection: how many bytes, how slowly, and which heads."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from contextlib import ExitStack

import pytest
from patience import PATIENCE_S
from raw_server import RawServer, read_all, read_until, request
from scripted import HI, said

from server.http.bounded_protocol import BODY_BYTES_PER_S, MAX_HEAD_BYTES
from server.http.exchange import LOSSES

CHAT = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()
JSON = "Content-Type: application/json"
BLOCK = b"a" * (1 << 16)
TAKEN_BYTES = 4 << 20
"""What the buffers of both ends may take of a request that is read no further."""
CHUNKED = request(JSON, "Transfer-Encoding: chunked", method="POST", path="/v1/chat/completions")
CLOSE = "Connection: close"
SLOW_S = 10.0
"""A time that no test waits for: `end_of_clocks` ends it."""
FAST_BYTES = 2 * int(BODY_BYTES_PER_S * SLOW_S)
"""More than enough of a body for one such time."""


@pytest.fixture
def serve(make_rig):
    """`serve(api_keys=...)`: a server with these settings; `header_timeout_s` and `body_timeout_s` too."""
    with ExitStack() as stack:

        def start(**settings):
            timeouts = {name: settings.pop(name) for name in [*settings] if name.endswith("_timeout_s")}
            rig = make_rig(**settings)
            rig.pipeline.batches = HI
            server = stack.enter_context(RawServer(rig.app, **timeouts))
            server.services, server.pipeline = rig.services, rig.pipeline
            return server

        yield start


@pytest.fixture
def server(serve):
    return serve()


def status_of(reply):
    return int(reply.split(b" ", 2)[1])


def wait_for(condition):
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def chunks(*pieces, trailers=()):
    sized = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return sized + b"0\r\n" + b"".join(line.encode() + b"\r\n" for line in trailers) + b"\r\n"


# What never ends


@pytest.mark.parametrize(
    ("start", "status"),
    [
        (b"GET /health HTTP/1.1\r\nHost: x\r\nX-A: ", 431),
        (b"GET /health HTTP/1.1\r\nHost: x\r\nX-", 431),
        (b"GET /", 414),
        (CHUNKED + b"1\r\n{\r\n0\r\nX-A: ", 431),
        (CHUNKED + b"1\r\n{\r\n0\r\nX-", 431),
        (CHUNKED + b"1;name=", 431),
    ],
    ids=["value", "name", "url", "trailer value", "trailer name", "chunk extension"],
)
def test_what_never_ends_is_refused_at_the_bound(server, start, status):
    reply, num_bytes = server.pour(start, BLOCK, max_bytes=40 << 20)
    assert status_of(reply) == status
    assert num_bytes < TAKEN_BYTES


def test_blank_lines_without_end_are_refused(server):
    reply, num_bytes = server.pour(b"", b"\r\n" * (1 << 15), max_bytes=40 << 20)
    assert status_of(reply) == 400
    assert num_bytes < TAKEN_BYTES


def test_an_endless_header_keeps_nobody_waiting(server):
    """40 MB on each of eight connections: a neighbour's request is served between them."""
    for _ in range(8):
        server.pour(b"GET /health HTTP/1.1\r\nHost: x\r\nX-A: ", BLOCK, max_bytes=40 << 20)
        assert status_of(server.talk(request(CLOSE))) == 200


def test_a_head_below_the_bound_passes_however_it_is_cut(server):
    head = request("X-Long: " + "a" * 60_000, CLOSE)
    for size in (1000, 20_000, len(head)):
        pieces = [head[at : at + size] for at in range(0, len(head), size)]
        assert status_of(server.talk(*pieces)) == 200


@pytest.mark.parametrize("headers", [["X-A: " + "a" * 70_000], ["a: b"] * 5000], ids=["one", "many"])
def test_too_large_a_head_is_refused(server, headers):
    assert status_of(server.talk(request(*headers))) == 431


def test_a_long_body_in_many_small_chunks_is_no_head(server):
    body = CHAT[:-1] + b" " * (MAX_HEAD_BYTES + 1) + CHAT[-1:]
    assert b"Hello" in server.talk(
        CHUNKED.replace(b"Host", b"Connection: close\r\nHost")
        + chunks(*[body[at : at + 1] for at in range(len(body))])
    )


def test_a_bounded_number_of_requests_waits_on_a_connection(server):
    reply = server.talk(request() * 70)
    assert reply.count(b"HTTP/1.1 200") == 65
    assert reply.count(b"HTTP/1.1 400") == 1


# Trailers are no headers


def trailed(server, *trailers, headers=()):
    head = request(
        JSON, CLOSE, *headers, "Transfer-Encoding: chunked", method="POST", path="/v1/chat/completions"
    )
    return server.talk(head + chunks(CHAT, trailers=trailers))


def test_a_key_in_a_trailer_opens_nothing(serve):
    server = serve(api_keys=("good",))
    assert status_of(trailed(server, "Authorization: Bearer good")) == 401
    assert status_of(trailed(server, headers=["Authorization: Bearer good"])) == 200


def test_a_trailer_does_not_replace_the_key(serve):
    server = serve(api_keys=("good",))
    headers = ["Authorization: Bearer good"]
    assert status_of(trailed(server, "Authorization: Bearer bad", headers=headers)) == 200


def test_a_trailer_gives_no_id_and_no_priority(server):
    reply = trailed(server, "X-Request-Id: mine", "X-Vllm-Priority: high")
    assert status_of(reply) == 200
    assert b"mine" not in reply


# Heads that are refused


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health\r\n\r\n",
        b"GET /health HTTP/0.9\r\n\r\n",
        b"GET /health HTTP/2.0\r\nHost: x\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
        b"GET /health HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n",
        b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT /health HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x00\x01\x02\r\n\r\n",
    ],
)
def test_a_bad_head_is_a_400_without_a_traceback(server, caplog, head):
    with caplog.at_level(logging.INFO):
        assert status_of(server.talk(head)) == 400
    assert "Traceback" not in caplog.text


def test_http_1_0_needs_no_host(server):
    assert status_of(server.talk(b"GET /health HTTP/1.0\r\n\r\n")) == 200


def test_a_bad_request_waits_for_the_response_before_it(server):
    """The refusal never stands in the middle of another response."""
    first = request(JSON, method="POST", path="/v1/chat/completions", body=CHAT[:-1] + b',"stream":true}')
    reply = server.talk(first + b"GET /health\r\n\r\n")
    stream, _, refusal = reply.partition(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert status_of(stream) == 200
    assert status_of(refusal) == 400
    assert stream.count(b"HTTP/1.1") == 1


def test_a_client_that_leaves_ends_the_request_that_others_wait_for(server):
    """Uvicorn notes a disconnect on the last request of a connection alone."""
    server.pipeline.batches = ["forever"]
    with server.connect() as connection:
        connection.sendall(request(JSON, method="POST", path="/v1/chat/completions", body=CHAT) + request())
        wait_for(lambda: server.pipeline.calls)
    wait_for(lambda: server.pipeline.calls[0].closed)


@pytest.mark.parametrize("cut", [0, 10])
def test_an_upgrade_to_another_protocol_is_ignored(server, cut):
    """As the HTTP client of Java sends it by default; the body stays the body of this request."""
    head = ["Connection: Upgrade, close", "Upgrade: h2c", JSON]
    sent = request(*head, method="POST", path="/v1/chat/completions", body=CHAT)
    pieces = [sent[: len(sent) - cut], sent[len(sent) - cut :]]
    reply = server.talk(*pieces, pause_s=0.05)
    assert status_of(reply) == 200
    assert b"Hello" in reply
    assert reply.count(b"HTTP/1.1") == 1


# Slow bodies


def slow_body(server, length=1000):
    connection = server.connect()
    connection.sendall(
        request(JSON, f"Content-Length: {length}", method="POST", path="/v1/chat/completions") + b"{"
    )
    return connection


def test_slow_bodies_hold_no_permit(serve):
    server = serve(max_concurrency=4)
    with ExitStack() as stack:
        for _ in range(256):
            stack.enter_context(slow_body(server))
        chat = request(JSON, CLOSE, method="POST", path="/v1/chat/completions", body=CHAT)
        assert status_of(server.talk(chat)) == 200
        assert server.services.arriving.num_bytes == 256
    wait_for(lambda: server.services.arriving.num_bytes == 0)


def test_a_body_has_a_deadline_as_a_whole(serve):
    server = serve(body_timeout_s=0.3)
    start_s = time.monotonic()
    with slow_body(server) as connection:
        reply = b""
        connection.settimeout(0.05)
        while not reply and time.monotonic() < start_s + PATIENCE_S:
            try:
                reply = connection.recv(1000)
            except TimeoutError:
                connection.sendall(b" ")
    assert status_of(reply) == 408


def test_a_body_that_goes_on_fast_may_take_longer(serve):
    server = serve(body_timeout_s=SLOW_S)
    with slow_body(server, length=3 * FAST_BYTES) as connection:
        for turn in (1, 2):
            connection.sendall(b" " * FAST_BYTES)
            wait_for(lambda turn=turn: server.services.arriving.num_bytes > turn * FAST_BYTES)
            server.end_of_clocks()
        connection.sendall(b" " * (FAST_BYTES - 1))
        assert status_of(connection.recv(1000)) == 400  # of the application: the body came whole


def test_a_body_that_goes_on_slowly_has_the_same_deadline(serve):
    server = serve(body_timeout_s=SLOW_S)
    with slow_body(server, length=3 * FAST_BYTES) as connection:
        connection.sendall(b" " * FAST_BYTES)
        wait_for(lambda: server.services.arriving.num_bytes > FAST_BYTES)
        server.end_of_clocks()
        connection.sendall(b" " * 100)
        wait_for(lambda: server.services.arriving.num_bytes > FAST_BYTES + 100)
        server.end_of_clocks()
        assert status_of(connection.recv(1000)) == 408


def test_what_arrived_while_the_worker_was_held_up_is_in_time(serve):
    server = serve()
    with server.connect() as connection:
        wait_for(lambda: server._server.server_state.connections)
        server.end_of_clocks(before=lambda: connection.sendall(request(CLOSE)))
        assert status_of(read_all(connection)) == 200


def test_a_body_that_nobody_reads_has_a_deadline_too(serve):
    server = serve(body_timeout_s=0.2)
    reply = server.talk(request("Content-Length: 1000") + b"{")
    assert reply.count(b"HTTP/1.1") == 1
    assert status_of(reply) == 200


def test_long_bodies_are_bounded_together_and_short_ones_pass(serve, monkeypatch):
    monkeypatch.setattr("server.http.request_body.MAX_ARRIVING", 2)
    server = serve(max_body_mb=1)
    with ExitStack() as stack:
        for _ in range(2):
            connection = stack.enter_context(slow_body(server, length=1 << 20))
            connection.sendall(b" " * ((1 << 20) - 100))
        wait_for(lambda: server.services.arriving.num_bytes > (2 << 20) - 1000)
        long = CHAT[:-1] + b" " * 70_000 + CHAT[-1:]
        sent = [
            request(JSON, CLOSE, method="POST", path="/v1/chat/completions", body=body)
            for body in (long, CHAT)
        ]
        refused, served = map(server.talk, sent)
    assert status_of(refused) == 429
    assert b"retry-after: 1" in refused
    assert status_of(served) == 200


def test_a_body_that_is_cut_short_starts_nothing(serve):
    server = serve()
    with server.connect() as connection:
        length = f"Content-Length: {len(CHAT) + 1}"
        connection.sendall(request(JSON, length, method="POST", path="/v1/chat/completions") + CHAT)
        time.sleep(0.05)
    time.sleep(0.1)
    assert server.pipeline.calls == []


# HTTP/1.0 and 100-continue


def test_an_old_clients_stream_ends_with_the_connection(server):
    body = CHAT[:-1] + b',"stream":true}'
    reply = server.talk(request(JSON, method="POST", path="/v1/chat/completions", version="1.0", body=body))
    head, _, stream = reply.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head
    assert stream.startswith(b"data: ")
    assert stream.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("path", "settings", "length", "status"),
    [
        ("/v1/chat/completions", {}, (1 << 20) + 1, 413),
        ("/v1/audio/transcriptions", {}, 1 << 40, 413),
        ("/v1/files", {}, 1 << 40, 413),
        ("/v1/chat/completions", {"api_keys": ("secret",)}, 100, 401),
        ("/v1/chat/complete", {}, 100, 404),
    ],
    ids=["chat", "sound", "file", "key", "path"],
)
def test_a_request_that_is_refused_by_its_head_gets_no_continue(serve, path, settings, length, status):
    server = serve(max_body_mb=1, **settings)
    kind = JSON if "chat" in path else "Content-Type: multipart/form-data; boundary=x"
    head = request(kind, "Expect: 100-continue", f"Content-Length: {length}", method="POST", path=path)
    reply = server.talk(head)
    assert status_of(reply) == status
    assert reply.count(b"HTTP/1.1") == 1
    assert b"connection: close" in reply.lower()


def test_a_body_that_came_without_waiting_leaves_the_connection_open(serve):
    server = serve(max_body_mb=1)
    expects = request(JSON, "Expect: 100-continue", method="POST", path="/v1/none", body=CHAT)
    reply = server.talk(expects + request(CLOSE, path="/health"))
    assert [int(each.split()[0]) for each in reply.split(b"HTTP/1.1")[1:]] == [404, 200]


def test_a_client_that_waits_is_told_to_continue(server):
    with server.connect() as connection:
        expects = ["Expect: 100-continue", f"Content-Length: {len(CHAT)}"]
        connection.sendall(request(JSON, *expects, method="POST", path="/v1/chat/completions"))
        assert read_until(connection, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(CHAT)
        assert status_of(read_until(connection, b"Hello")) == 200


def test_an_old_client_is_not_told_to_continue(server):
    sent = request(
        JSON, "Expect: 100-continue", method="POST", path="/v1/chat/completions", version="1.0", body=CHAT
    )
    assert status_of(server.talk(sent)) == 200


# A client that leaves


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_ends_its_call_and_no_task_waits_for_that(server, stream):
    server.pipeline.batches = [[(0, said("Hel"))], "forever"]
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}], "stream": stream}).encode()
    with server.connect() as connection:
        connection.sendall(request(JSON, method="POST", path="/v1/chat/completions", body=body))
        wait_for(lambda: server.pipeline.calls and server.pipeline.calls[0].started)
        assert not [name for name in server.task_names() if name.startswith("watch-")]
        assert not server.pipeline.calls[0].closed
    wait_for(lambda: server.pipeline.calls[0].closed)
    wait_for(lambda: server.services.admission.num_inside == 0)


def test_the_loss_of_a_client_is_noticed_after_a_long_body():
    """Uvicorn reads no further where much of a body comes at once."""
    begun, sent, lost = threading.Event(), threading.Event(), threading.Event()
    body = bytes(100 << 10)

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        scope[LOSSES].append(lost.set)
        asyncio.get_running_loop().call_soon(lambda: begun.set() or sent.wait(PATIENCE_S))
        while (await receive()).get("more_body"):
            pass
        while not lost.is_set():
            await asyncio.sleep(0.01)

    with RawServer(app) as server:
        with server.connect() as connection:
            connection.sendall(request(f"Content-Length: {len(body)}", method="POST"))
            assert begun.wait(PATIENCE_S)
            connection.sendall(body)
            sent.set()
        assert lost.wait(PATIENCE_S)
