"""The parts of `braid bench`, against servers that answer in good and in bad ways."""

from __future__ import annotations

import asyncio
import json
import random
from itertools import pairwise

import pytest
from patience import until

from tools.client.api_server import ApiServer
from tools.load_test import sending
from tools.load_test.figures import figures, most_in_flight, tokens_over_time
from tools.load_test.lengths import Lengths
from tools.load_test.outcome import Outcome, read_stream
from tools.load_test.plan import Load, PlannedRequest, plan
from tools.load_test.plot import svg
from tools.load_test.prompts import Prompts
from tools.load_test.sending import Sender

HEAD = "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n"
EVENT = 'data: {"choices": [{"text": "x"}]}\n\n'
USAGE = 'data: {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 4}}\n\n'
DONE = "data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("7", 7, 7), ("3-5", 3, 5), (" 3 - 5 ", 3, 5), ("100~1", 90, 110), ("1~50", 1, 300)],
)
def test_lengths_are_drawn_in_their_bounds(text, low, high):
    source = random.Random(0)
    drawn = [Lengths.read(text).draw(source) for _ in range(300)]
    assert low <= min(drawn) <= max(drawn) <= high
    assert (len(set(drawn)) == 1) == (text == "7")


@pytest.mark.parametrize("text", ["", "x", "0", "5-3", "1.5", "-3", "3-"])
def test_what_is_no_length_is_refused(text):
    with pytest.raises(ValueError, match=r"is no length|at least 1"):
        Lengths.read(text)


def pieces(text, cut=7):
    """A reply in pieces that end anywhere, one each second."""
    content = text.encode()
    return [(float(at), content[at : at + cut]) for at in range(0, len(content), cut)]


def read(text):
    outcome = Outcome(0.0, 0.0)
    read_stream(outcome, pieces(text))
    return outcome


def test_a_stream_is_read_from_any_pieces():
    first = 'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\n'
    chat = 'data: {"choices": [{"delta": {"reasoning": "r"}, "finish_reason": "stop"}]}\r\n\r\n'
    outcome = read(first + chat + ": comment\n\n" + EVENT + USAGE + DONE)
    assert outcome.ok
    assert (outcome.prompt_tokens, outcome.output_tokens, outcome.finish_reason) == (5, 4, "stop")
    assert len(outcome.arrivals_s) == 2
    assert outcome.arrivals_s[0] > len(first)


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        (EVENT, "ended before its end"),
        (DONE, "no tokens"),
        (EVENT + 'data: {"error": {"message": "dead"}}\n\n', "error in the stream"),
        ("data: {nonsense\n\n" + DONE, "not an event"),
    ],
)
def test_a_broken_stream_is_a_failure(text, failure):
    assert read(text).failure == failure


def test_a_server_may_leave_out_the_last_event():
    assert read(EVENT + 'data: {"choices": [{"text": "", "finish_reason": "length"}]}\n\n').ok


def test_tokens_are_events_where_the_server_counts_none():
    assert read(EVENT * 3 + DONE).output_tokens == 3


async def serve(replies, run):
    """Run `run(url)` beside a server that writes one of `replies` to each connection's requests, in turn."""
    waiting = iter(replies)

    async def answer(reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length:")[2].split()[0])
                await reader.readexactly(length)
                reply = next(waiting)
                if reply is None:
                    await asyncio.sleep(60)
                writer.write(reply)
                if b"[DONE]" not in reply:
                    break
        except asyncio.IncompleteReadError:
            pass

    return await listen(answer, run)


async def listen(answer, run):
    """Run `run(url)` beside a server that calls `answer(reader, writer)` for each connection."""

    async def connected(reader, writer):
        try:
            await answer(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1")
    async with server:
        return await run(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")


def reply(text, status="200 OK", missing=0):
    return (HEAD.format(status=status, length=len(text) + missing) + text).encode()


def outcomes_of(replies, timeout_s=30.0, streams=1):
    found = []

    async def run(url):
        sender = Sender(ApiServer(url), "/completions", timeout_s)
        seconds = await sender.run([PlannedRequest(b"{}", 2)] * len(replies), streams, found.append)
        sender.close()
        return seconds

    return found, asyncio.run(serve(replies, run))


class Clock:
    """Stands still but for `now_s`; `reads` counts who looked at it."""

    def __init__(self):
        self.now_s, self.reads = 100.0, 0

    def perf_counter(self):
        self.reads += 1
        return self.now_s


def test_each_time_is_taken_when_its_piece_arrives(monkeypatch):
    """Two requests, one after the other; a piece of a reply comes once the one before it was read."""
    clock, outcomes = Clock(), []
    monkeypatch.setattr(sending, "time", clock)
    whole = reply(EVENT * 3 + USAGE + DONE)
    cuts = [0, *(whole.find(EVENT.encode()) + len(EVENT) * number for number in (1, 2, 3)), len(whole)]

    async def answer(reader, writer):
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\n{}")
            for (begin, end), waited_s in zip(pairwise(cuts), (0.5, 0.25, 0.125, 2.0), strict=True):
                reads = clock.reads
                clock.now_s += waited_s
                writer.write(whole[begin:end])
                await until(lambda reads=reads: clock.reads > reads)

    async def run(url):
        sender = Sender(ApiServer(url), "/completions", 90.0)
        seconds = await sender.run([PlannedRequest(b"{}", 3)] * 2, 1, outcomes.append)
        sender.close()
        return seconds

    assert asyncio.run(listen(answer, run)) == 5.75
    assert [outcome.sent_s for outcome in outcomes] == [0.0, 2.875]
    assert [outcome.arrivals_s for outcome in outcomes] == [[0.5, 0.75, 0.875]] * 2
    assert [outcome.end_s for outcome in outcomes] == [2.875] * 2


def test_failures_are_counted_by_kind():
    good = reply(EVENT * 2 + USAGE + DONE)
    replies = [
        good,
        reply('{"error": {"message": "full"}}', "429 Too Many"),
        good,
        reply(EVENT, missing=9),
        b"junk\r\n\r\n",
    ]
    outcomes, seconds = outcomes_of(replies)
    kinds = {"HTTP 429": 1, "connection broken": 2}
    assert figures(outcomes, seconds).failures == kinds
    assert figures(outcomes, seconds).succeeded == 2
    assert outcomes[1].message == "429: full"
    assert not figures([outcome for outcome in outcomes if not outcome.ok], seconds).first


def test_a_server_that_says_nothing_is_a_timeout():
    found, _ = outcomes_of([None], timeout_s=0.05)
    assert [each.failure for each in found] == ["timeout"]


def test_a_server_that_is_not_there():
    found = []
    sender = Sender(ApiServer("http://127.0.0.1:1"), "/completions", 5.0)
    asyncio.run(sender.run([PlannedRequest(b"{}", 2)], 1, found.append))
    assert [each.failure for each in found] == ["connection refused"]


class CountingServer(ApiServer):
    """Counts tokens as a model might: a word is `per_word` tokens, and a template has `template`."""

    def __init__(self, per_word, template, has_tokenize):
        super().__init__("http://127.0.0.1:1")
        self.per_word, self.template, self.has_tokenize = per_word, template, has_tokenize

    def count(self, text):
        return len(text.split()) * self.per_word + self.template

    def post(self, path, body):
        return {"usage": {"prompt_tokens": self.count(body["prompt"])}} if self.template else {}

    def post_above(self, path, body):
        return {"count": self.count(body["prompt"])} if self.has_tokenize else {}


@pytest.mark.parametrize("has_tokenize", [True, False])
@pytest.mark.parametrize(("per_word", "template"), [(1, 0), (1, 12), (3, 11)])
def test_prompts_have_the_wanted_length(per_word, template, has_tokenize):
    server = CountingServer(per_word, template, has_tokenize)
    prompts = Prompts(server, "m", is_chat=False, seed=1)
    assert prompts.is_exact == has_tokenize
    for tokens in (20, 64, 401):
        assert abs(server.count(prompts.make(tokens)) - tokens) < per_word


def test_without_any_count_a_word_is_taken_for_a_token():
    server = CountingServer(3, 0, has_tokenize=False)
    assert len(Prompts(server, "m", is_chat=False, seed=1).make(50).split()) == 50


def test_a_plan_repeats_for_its_seed_and_comes_at_its_rate():
    load = Load("m", False, 400, Lengths.read("5-9"), Lengths.read("4"), None, rate=20.0, seed=3)
    prompts = [Prompts(CountingServer(1, 0, True), "m", is_chat=False, seed=3) for _ in range(2)]
    first, again = (plan(load, prompt, load.requests) for prompt in prompts)
    assert first == again
    times = [planned.at_s for planned in first]
    assert times == sorted(times)
    assert times[-1] == pytest.approx(400 / 20, rel=0.2)
    body = json.loads(first[0].body)
    assert (body["max_tokens"], body["stream"], body["stream_options"]) == (4, True, {"include_usage": True})
    assert len({planned.body for planned in first}) == 400


def test_figures_of_two_requests():
    outcomes = [
        Outcome(0.0, 0.0, [0.1, 0.2, 0.3], 0.4, 10, 3),
        Outcome(0.2, 0.2, [0.2, 0.6], 0.8, 10, 3),
    ]
    whole = figures(outcomes, 1.0)
    assert (whole.requests_per_s, whole.output_tokens_per_s, whole.tokens_per_s) == (2.0, 6.0, 26.0)
    assert whole.first.p50_ms == pytest.approx(150)
    assert whole.between.max_ms == pytest.approx(400)
    assert whole.per_token.max_ms == pytest.approx(200)
    assert most_in_flight(outcomes) == 2
    assert sum(tokens_over_time(outcomes, 1.0, 10)) / 10 == pytest.approx(6.0)
    assert svg(whole, outcomes, "a & b").count("<polyline") == 4
