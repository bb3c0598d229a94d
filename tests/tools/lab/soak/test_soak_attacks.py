"""Attacks beside a soak: their requests, what is counted of their answers, and what a neighbour saw."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import asynccontextmanager, suppress
from random import Random

import pytest
from click.testing import CliRunner
from patience import PATIENCE_S

from tools.lab.soak import __main__ as command
from tools.lab.soak import attack_kinds
from tools.lab.soak.attack_kinds import ATTACKS
from tools.lab.soak.attacks import AFTER, ATTACKER_KEY, BEFORE, NEIGHBOUR_KEY, UNDER, Attacks, ended
from tools.lab.soak.figures import broken_by_attacks, refused_to_neighbour
from tools.lab.soak.raw_requests import RawRequest, answer_to
from tools.lab.soak.sending import Outcome

OK = b'HTTP/1.1 200 OK\r\n\r\n{"id": "f"}'
NO_JSON = ("files to the quota", "slow uploads to the limit", "batch of hard grammars", "broken body")
IN_STREAM = b'HTTP/1.1 200 OK\r\n\r\ndata: {"error": 1}\n\n'


@asynccontextmanager
async def server_of(answer):
    """A server that reads each request and sends `answer(request)`, then closes; its address."""
    handlers = []

    async def handle(reader, writer):
        handlers.append(asyncio.current_task())
        head = await reader.readuntil(b"\r\n\r\n")
        _, _, length = head.partition(b"Content-Length: ")
        with suppress(asyncio.IncompleteReadError):  # the client left
            body = await reader.readexactly(int(length.split(b"\r\n")[0] or 0))
            writer.write(answer(head + body))
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()
        await asyncio.gather(*handlers, return_exceptions=True)


def answered(request, reply):
    async def sent():
        async with server_of(lambda _: reply) as address:
            return await answer_to(request, address, "k")

    return asyncio.run(sent())


@pytest.mark.parametrize("kind", ATTACKS)
def test_an_attack_is_the_same_for_the_same_seed_and_names_a_path(kind):
    one, same = ATTACKS[kind](Random(3)), ATTACKS[kind](Random(3))
    assert one == same
    assert one.path.startswith("/")
    if one.body and kind not in NO_JSON:
        json.loads(one.body)


@pytest.mark.parametrize(
    ("request_", "reply", "expected"),
    [
        (RawRequest("/", b"{}"), OK, ("200", b'{"id": "f"}')),
        (RawRequest("/", method="GET", leaves_after_s=0), OK, ("200", b"")),
        (RawRequest("/"), b"", ("closed", b"")),
    ],
)
def test_an_answer_is_its_status_and_what_was_read(request_, reply, expected):
    assert answered(request_, reply) == expected


def test_a_server_that_is_gone_is_an_answer_too():
    assert asyncio.run(answer_to(RawRequest("/"), ("127.0.0.1", 1), "k")) == ("closed", b"")


@pytest.mark.breadth
def test_attacks_take_turns_beside_a_neighbour_of_another_key(monkeypatch):
    monkeypatch.setattr(attack_kinds, "UNREAD_S", 0.2)
    keys, times = Counter(), iter([False, True])

    def answer(request):
        keys[request.partition(b"Bearer ")[2].split(b"\r\n")[0].decode()] += 1
        return IN_STREAM if b'"stream": true' in request and ATTACKER_KEY.encode() in request else OK

    async def attack():
        async with server_of(answer) as address:
            attacks = Attacks(address, most=1, seed=0)
            running = asyncio.create_task(attacks.run(lambda: next(times)))
            async with asyncio.timeout(PATIENCE_S):
                while attacks.neighbour.phase != AFTER:
                    await asyncio.sleep(0.01)
            await ended(running)
            await attacks.neighbour.use_pools()
            return attacks

    attack_results = asyncio.run(attack())
    attacks = {kind: ATTACKS[kind](Random(f"0-0-{kind}")) for kind in ATTACKS}
    sent = {kind: request.copies + (request.next_of is not None) for kind, request in attacks.items()}
    assert {
        kind: sum(answers_of_kind.values()) for kind, answers_of_kind in attack_results.answers.items()
    } == sent
    never_whole = sent["slow uploads to the limit"]
    assert keys[ATTACKER_KEY] == sum(sent.values()) - never_whole
    assert keys[NEIGHBOUR_KEY] > 0
    assert {outcome.kind for outcome in attack_results.neighbour.outcomes} >= {BEFORE, UNDER}
    assert [outcome.error for outcome in attack_results.neighbour.outcomes if outcome.error] == []
    assert {*attack_results.neighbour.stored} == {
        *(f"GET /v1/{stored}: 200" for stored in ("responses", "files")),
        "POST /v1/files: 200",
        "DELETE /v1/files: 200",
        "WebSocket /v1/responses: 200",
    }
    assert refused_to_neighbour(attack_results.neighbour.stored) == []


def seen(phase, seconds=0.1, error=""):
    return [Outcome(phase, seconds, error)] * 10


@pytest.mark.parametrize(
    ("answers", "neighbour", "named"),
    [
        ({"odd path": Counter({"404": 3})}, seen(BEFORE) + seen(UNDER), None),
        ({"odd path": Counter({"404": 3, "500": 1})}, seen(BEFORE) + seen(UNDER), "odd path: 1 × 500"),
        ({"wide": Counter({"503": 3, "507": 1})}, seen(BEFORE) + seen(UNDER), None),
        ({"wide": Counter({"502": 2})}, seen(BEFORE) + seen(UNDER), "wide: 2 × 502"),
        ({}, seen(BEFORE) + seen(UNDER, 0.2), None),
        ({}, seen(BEFORE) + seen(UNDER, 0.4), "0.40 s under attack"),
        ({}, seen(BEFORE, error="503 busy"), "503 busy"),
    ],
)
def test_what_attacks_cost_is_named(answers, neighbour, named):
    broken = broken_by_attacks(answers, neighbour)
    assert (named is None) == (broken == [])
    assert all(named in sentence for sentence in broken)


def test_a_pool_that_is_refused_to_a_neighbour_is_named():
    stored = Counter({"GET /v1/files: 200": 4, "WebSocket /v1/responses: 101": 4, "POST /v1/files: 429": 2})
    assert refused_to_neighbour(stored) == ["neighbour, 2 × POST /v1/files: 429"]


def test_attacks_need_a_server_of_their_own():
    run = CliRunner().invoke(command.main, ["--attacks", "1", "--url", "http://127.0.0.1:1", "--pid", "1"])
    assert run.exit_code == 2
    assert "--attacks needs a server of its own" in run.output
