"""The arithmetic of the benchmark, and its HTTP client against a server that misbehaves."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from tools.bench.client import RequestFailed, request_over_http
from tools.bench.load import Figures, Load, Timings, figures, random_load
from tools.bench.report import Taken, rows

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


def ask(port: int, num_requests: int = 1, concurrency: int = 1) -> Timings:
    return request_over_http(port, "m", Load(concurrency, TOKENS, [[1, 2, 3]] * num_requests))


def test_every_event_with_text_is_an_arrival(serve):
    timings = ask(serve(reply([*GOOD, usage(2), b"[DONE]"])), num_requests=3, concurrency=2)
    assert [len(times) for times in timings.token_s] == [2, 2, 2]
    assert timings.output_tokens == 6


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


def test_figures_are_rates_and_percentiles():
    timings = Timings(2.0, 6, [[0.1, 0.2, 0.4], [0.3, 0.4, 0.5]])
    got = figures(timings)
    assert got.tokens_per_s == 3.0
    assert got.first_p50_ms == pytest.approx(200)
    assert got.gap_p50_ms == pytest.approx(100)
    assert got.gap_p99_ms == pytest.approx(197)


def test_the_ratio_is_the_median_of_neighbours():
    """A machine that is twice as fast in the second round changes the speeds, not the ratio."""
    own = [Taken(Figures(speed, 0, 0, 0, 0), 1.0) for speed in (9.0, 18.0, 27.0)]
    peer = [Taken(Figures(speed, 0, 0, 0, 0), 1.0) for speed in (10.0, 20.0, 30.0)]
    made = rows(8, {"own": own, "peer": peer}, {"own": 5_000_000, "peer": 0}, "peer")
    assert made[0]["ratio"] == pytest.approx(0.9)
    assert (made[0]["tokens_per_s"], made[0]["peak_mb"], made[1]["ratio"]) == (18.0, 5.0, 1.0)


def test_prompts_of_different_rounds_share_nothing():
    first, second = (random_load(2, 4, 16, 8, seed) for seed in (1, 2))
    assert not {prompt[0] for prompt in first.prompts} & {prompt[0] for prompt in second.prompts}
    assert Load.read(first.write()) == first
