"""The soak: its requests, what it makes of replies, its figures, and a short one against a real server."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from random import Random

import pytest
from click.testing import CliRunner

from tools.client.connection import Connection, ConnectionBroken
from tools.lab.soak import __main__ as command
from tools.lab.soak import processes
from tools.lab.soak.figures import Bounds, broken_bounds, kind_figures, memory_slope
from tools.lab.soak.processes import Sample, Usage
from tools.lab.soak.request_kinds import KINDS, SoakRequest, soak_request
from tools.lab.soak.sending import Outcome, carry_out, send_all


def sample(requests, rss_kb, descriptors=20, threads=5):
    usage = Usage(rss_kb, rss_kb, descriptors, threads)
    return Sample(requests, requests / 10, {"engine host": usage})


def outcomes(count=100, seconds=0.5):
    return [Outcome("chat", seconds, "")] * count


def test_requests_are_the_same_for_the_same_seed():
    assert [soak_request(1, n) for n in range(50)] == [soak_request(1, n) for n in range(50)]
    assert soak_request(1, 0) != soak_request(2, 0)


def test_every_kind_is_sent_and_is_json():
    found = dict(soak_request(0, number) for number in range(2000))
    assert set(found) == set(KINDS)
    for kind, request in found.items():
        assert kind == "bad requests" or not request.body or json.loads(request.body)


def test_the_slope_is_that_of_the_second_half():
    samples = [sample(n, 9000 * n if n < 500 else 9000 * 500 + 2 * (n - 500)) for n in range(0, 1001, 50)]
    assert memory_slope(samples, "engine host") == pytest.approx((2000, 2000, 2000))
    assert memory_slope(samples[:1], "engine host") == (0, 0, 0)


def test_one_large_body_in_flight_is_no_slope():
    samples = [sample(n, 300_000 if n == 900 else 100_000 + 2 * n) for n in range(0, 1001, 10)]
    assert memory_slope(samples, "engine host") == pytest.approx((2000, 2000, 2000), rel=0.1)


def memory_of(kb, seed):
    """Samples of a process with this true slope, whose memory moves in steps that last for a while."""
    rng, level = Random(seed), 0.0
    for number in range(400):
        level = rng.gauss(0, 3000) if number % 17 == 0 else level
        yield sample(number * 100, 200_000 + kb * number / 10 + level + rng.gauss(0, 200))


@pytest.mark.parametrize(
    ("kb", "least_good", "most_good"), [(0, 38, 40), (200, 38, 40), (1400, 0, 1), (3000, 0, 0)]
)
def test_memory_is_flat_where_the_soak_shows_it(kb, least_good, most_good):
    """Of 40 soaks with noise that lasts: flat ones pass, growing ones do not."""
    num_good = 0
    for seed in range(40):
        samples = [*memory_of(kb, seed)]
        num_good += broken_bounds(outcomes(), samples, {}, Bounds()) == []
    assert least_good <= num_good <= most_good


def test_a_soak_that_is_too_short_is_not_flat_and_says_so():
    rng = Random(0)
    samples = [sample(n * 100, 100_000 + rng.gauss(0, 5000)) for n in range(30)]
    (undecided,) = broken_bounds(outcomes(), samples, {}, Bounds())
    assert undecided.endswith("which may be more than 1000: a longer soak shows whether it is")
    (grows,) = broken_bounds(outcomes(), [*memory_of(5000, 0)], {}, Bounds())
    assert "grows by +" in grows


class Child:
    """A process with a command and children."""

    def __init__(self, pid, *command, children=()):
        self.pid, self.command, self.below = pid, command, children

    def cmdline(self):
        return [*self.command]

    def children(self):
        return [*self.below]


def test_what_compiles_kernels_is_no_process_of_the_server(monkeypatch):
    build = Child(4, "python", "-m", "pipelines.host.kernel_build", children=[Child(5, "g++")])
    host = Child(3, "python", "-m", "pipelines.host", "--models", "m", children=[build, Child(6, "render")])
    workers = [Child(pid, "python", "-m", "gunicorn", "-c", "conf.py") for pid in (8, 7)]
    monkeypatch.setattr(
        processes.psutil, "Process", lambda pid: Child(pid, "gunicorn", children=[host, *workers])
    )
    named_processes = processes.named_processes(1)
    assert {name: process.pid for name, process in named_processes.items()} == {
        "master": 1,
        "engine host": 3,
        "other 1": 6,
        "worker 1": 7,
        "worker 2": 8,
    }


def test_figures_by_kind():
    figures = kind_figures([*outcomes(), Outcome("beams", 9.0, "500 no")])
    assert list(figures) == ["chat", "beams", "all"]
    assert figures["all"].requests == 101
    assert figures["beams"] == (1, 1, 9.0, 9.0, 9.0)


@pytest.mark.parametrize(
    ("last", "left", "sent", "named"),
    [
        (sample(1000, 500), {}, outcomes(), None),
        (sample(1000, 900_000), {}, outcomes(), "KB of memory"),
        (sample(1000, 500, descriptors=60), {}, outcomes(), "descriptors"),
        (sample(1000, 500, threads=30), {}, outcomes(), "threads"),
        (sample(1000, 500), {"vllm:kv_cache_usage_perc": 0.1}, outcomes(), "kv_cache_usage_perc"),
        (sample(1000, 500), {}, outcomes(seconds=61.0), "took 61.0 s"),
        (sample(1000, 500), {}, [Outcome("chat", 0.1, "500 oops")], "oops"),
    ],
)
def test_what_is_over_its_bound_is_named(last, left, sent, named):
    samples = [sample(0, 400), sample(500, 500), last]
    broken = broken_bounds(sent, samples, left, Bounds())
    assert (named is None) == (broken == [])
    assert all(named in sentence for sentence in broken)


def test_a_process_that_has_ended_is_named():
    gone = sample(1000, 500)._replace(usage={})
    assert broken_bounds(outcomes(), [sample(0, 400), gone], {}, Bounds()) == ["engine host has ended"]


@asynccontextmanager
async def scripted_server(*replies):
    """A server that sends one reply on each request; b"" closes the connection instead."""
    waiting, handlers = list(replies), []

    async def answer(reader, writer):
        handlers.append(asyncio.current_task())
        while waiting and (await reader.read(1 << 16)):
            reply = waiting.pop(0)
            writer.write(reply)
            await writer.drain()
            if not reply:
                break
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        connection = Connection("127.0.0.1", server.sockets[0].getsockname()[1])
        yield connection
        connection.close()
        await asyncio.gather(*handlers)


def whole(status, body):
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(text):
    return f"{len(text):x}\r\n{text}\r\n".encode()


END = chunk("data: [DONE]\n\n") + b"0\r\n\r\n"


@pytest.mark.parametrize(
    ("request_", "reply", "problem"),
    [
        (SoakRequest("/", holds=b'"text"'), whole(200, '{"text": 1}'), ""),
        (SoakRequest("/", holds=b'"text"'), whole(200, "{}"), "200 {}"),
        (SoakRequest("/"), whole(503, "busy"), "503 busy"),
        (SoakRequest("/", status=400), whole(400, "no"), ""),
        (SoakRequest("/", holds=b"[DONE]"), CHUNKED + chunk("data: {}\n\n") + END, ""),
        (
            SoakRequest("/", holds=b"[DONE]"),
            CHUNKED + chunk('data: {"error": 1}\n\n') + END,
            '200 data: {"error"',
        ),
        (SoakRequest("/", hang_up_after=1), CHUNKED + chunk("data: {}\n\n"), ""),
        (SoakRequest("/", hang_up_after=0), b"", ""),
    ],
)
def test_a_reply_is_judged(request_, reply, problem):
    async def judged():
        async with scripted_server(reply) as connection:
            return await carry_out(connection, request_)

    found = asyncio.run(judged())
    assert found.startswith(problem) if problem else found == ""


def test_a_background_response_is_read_until_it_has_ended():
    async def judged(*replies):
        async with scripted_server(*(whole(200, json.dumps(each)) for each in replies)) as connection:
            return await carry_out(connection, SoakRequest("/v1/responses", polled=True))

    queued = {"id": "r", "status": "queued"}
    assert asyncio.run(judged(queued, queued, {"status": "completed"})) == ""
    assert "failed" in asyncio.run(judged(queued, {"status": "failed"}))


def test_a_broken_connection_is_an_error_and_the_next_request_opens_another():
    async def judged():
        async with scripted_server(b"", whole(200, "a"), b"nonsense\r\n\r\n") as connection:
            with pytest.raises(ConnectionBroken, match="closed"):
                await carry_out(connection, SoakRequest("/"))
            connection.close()
            assert await carry_out(connection, SoakRequest("/")) == ""
            with pytest.raises(ConnectionBroken, match="not HTTP"):
                await carry_out(connection, SoakRequest("/"))

    asyncio.run(judged())


def test_a_server_that_is_gone_is_an_error_of_each_request():
    found = []
    asyncio.run(send_all([Connection("127.0.0.1", 1)], 0, 3, found.append))
    assert ["ConnectionRefusedError" in outcome.error for outcome in found] == [True] * 3


@pytest.mark.breadth
def test_a_short_soak_of_a_real_server(tmp_path):
    arguments = ["--requests", "60", "--connections", "8", "--workers", "1", "--slope-kb", "1e9"]
    run = CliRunner().invoke(command.main, [*arguments, "--json", str(tmp_path / "soak.json")])
    assert run.exit_code == 0, run.output
    assert "60 requests" in run.output
    assert "vllm:num_requests_running 0" in run.output
    samples = json.loads((tmp_path / "soak.json").read_text())["samples"]
    assert set(samples[-1]["usage"]) == {"master", "engine host", "worker 1"}
