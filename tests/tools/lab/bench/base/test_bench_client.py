"""The benchmark's HTTP client, against a server that misbehaves."""

from __future__ import annotations

import asyncio
import json
import socket
import threading

import pytest

from tools.lab.bench.base.client import RequestFailed, request_over_http
from tools.lab.bench.base.load import Load, Request, Timings

TOKENS = 2
GOOD = [b'{"choices":[{"text":"a"}]}', b'{"choices":[{"text":"b"}]}']


def usage(count: int) -> bytes:
    return b'{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":%d}}' % count


def reply(events: list[bytes], status: bytes = b"200 OK") -> bytes:
    """A chunked stream of events."""
    head = b"HTTP/1.1 %s\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" % status
    lines = [b"data: %s\n\n" % event for event in events]
    return head + b"".join(b"%x\r\n%s\r\n" % (len(line), line) for line in lines) + b"0\r\n\r\n"


@pytest.fixture
def serve():
    """`serve(bytes)` → a port that answers every request with these bytes; `serve.bodies` were received."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    servers, bodies = [], []

    def start(answer: bytes) -> int:
        async def respond(reader, writer):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            bodies.append(json.loads(await reader.readexactly(length)))
            writer.write(answer)
            await writer.drain()
            writer.close()
            await writer.wait_closed()

        server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(respond, "127.0.0.1", 0), loop
        ).result()
        servers.append(server)
        return server.sockets[0].getsockname()[1]

    start.bodies = bodies
    yield start
    for server in servers:
        loop.call_soon_threadsafe(server.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def ask(port: int, num_requests: int = 1, streams: int = 1, **asked) -> Timings:
    requests = [Request([1, 2, 3], TOKENS)] * num_requests
    return request_over_http(port, "m", Load(streams, requests, **asked))


def test_every_event_with_text_is_an_arrival(serve):
    timings = ask(serve(reply([*GOOD, usage(2), b"[DONE]"])), num_requests=3, streams=2)
    assert [len(times) for times in timings.token_s] == [2, 2, 2]


def test_prompts_are_sent_as_token_ids_that_run_to_their_end(serve):
    ask(serve(reply([*GOOD, usage(2), b"[DONE]"])))
    sent = serve.bodies[0]
    assert (sent["prompt"], sent["max_tokens"], sent["ignore_eos"]) == ([1, 2, 3], TOKENS, True)


def test_too_few_tokens_are_an_error(serve):
    port = serve(reply([GOOD[0], usage(1), b"[DONE]"]))
    with pytest.raises(RequestFailed, match="1 tokens came instead of 2"):
        ask(port)


def test_a_stream_that_breaks_off_is_an_error(serve):
    port = serve(reply(GOOD))
    with pytest.raises(RequestFailed, match="ended before"):
        ask(port)


def test_a_refusal_is_shown(serve):
    port = serve(reply([b"overloaded"], status=b"429 Too Many Requests"))
    with pytest.raises(RequestFailed, match="429 Too Many Requests"):
        ask(port)


def test_sampling_and_schemas_are_sent(serve):
    ask(serve(reply([*GOOD, usage(2), b"[DONE]"])), sampling={"temperature": 0.8}, schema={"type": "array"})
    sent = serve.bodies[0]
    assert (sent["temperature"], sent["structured_outputs"]) == (0.8, {"json": {"type": "array"}})


def test_scores_are_asked_of_every_token_of_the_prompt(serve):
    port = serve(reply([*GOOD, usage(2), b"[DONE]"]))
    ask(port)
    ask(port, scored=True)
    plain, scored = serve.bodies
    assert "echo" not in plain
    assert (scored["echo"], scored["logprobs"]) == (True, 1)


def test_a_request_waits_for_the_one_it_follows_and_for_its_time(serve):
    load = Load(8, [Request([1], TOKENS, at_s=0.2), Request([2], TOKENS), Request([3], TOKENS, after=0)])
    timings = request_over_http(serve(reply([*GOOD, usage(2), b"[DONE]"])), "m", load)
    assert [body["prompt"] for body in serve.bodies] == [[2], [1], [3]]
    assert timings.sent_s[0] >= 0.2
    assert timings.sent_s[2] >= timings.sent_s[0] + timings.token_s[0][-1]


def test_a_server_that_hangs_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError):
        request_over_http(silent.getsockname()[1], "m", Load(1, [Request([1], 1)]), timeout_s=0.1)
