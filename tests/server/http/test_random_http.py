"""Random requests, valid and spoiled: the server says whole responses, none of them a 5xx, and serves on."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from random import Random

import h11
import pytest
from breadth import after
from patience import PATIENCE_S
from random_http import Case, random_case
from raw_server import RawServer, request
from scripted import HI

SEED = 20
NUM_CASES = int(os.environ.get("BRAID_HTTP_CASES", 2000))
"""Of the broader run."""
AT_ONCE = 64
TIMEOUT_S = 1.0
"""For the head and the body of a request; what a case leaves unfinished ends with it."""
QUIET_S = 0.1
"""After a response, a client that hears nothing for so long leaves."""
STALL_S = 60.0
"""The longest time until a neighbour's health check is answered, on a machine that does much else."""


async def exchange(port: int, case: Case) -> tuple[bytes, bool]:
    """What came back, and whether the server closed the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    reply = b""
    try:
        for piece in case.pieces:
            if not writer.is_closing():
                writer.write(piece)
            await asyncio.sleep(0)
        if case.leaves:
            return b"", False
        while data := await asyncio.wait_for(reader.read(1 << 16), QUIET_S if reply else PATIENCE_S):
            reply += data
    except TimeoutError:
        assert reply, "neither a response nor the end of the connection"
        return reply, False
    except ConnectionError:
        return reply, False  # reset, since the server did not read all that was sent
    finally:
        writer.transport.abort()
    return reply, True


def statuses(reply: bytes, closed: bool) -> list[int]:
    """The statuses of a sequence of responses.  Raises h11's error where it is none."""
    statuses_found = []
    client = h11.Connection(h11.CLIENT)
    client.receive_data(reply)
    if closed and reply:
        client.receive_data(b"")
    while client.trailing_data[0]:
        client.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
        client.send(h11.EndOfMessage())
        event = None
        while event is not h11.NEED_DATA and not isinstance(event, h11.EndOfMessage):
            event = client.next_event()
            if isinstance(event, h11.Response):
                statuses_found.append(event.status_code)
        if client.their_state is h11.DONE:
            client.start_next_cycle()
        else:
            assert not client.trailing_data[0], "bytes after the last response"
            break
    return statuses_found


async def neighbour(port: int, waits_s: list[float]) -> None:
    """Ask for the server's health again and again."""
    while True:
        start_s = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(request("Connection: close"))
            reply = await reader.read()
        finally:
            writer.close()
        if not reply:
            continue  # this process took longer than TIMEOUT_S to send the request
        assert reply.startswith(b"HTTP/1.1 200"), reply
        waits_s.append(time.monotonic() - start_s)
        await asyncio.sleep(0.02)


async def send_all(port: int, num_cases: int) -> tuple[list[int], list[float]]:
    """The statuses of every response, and how long the neighbour waited each time."""
    statuses_found: list[int] = []
    waits_s: list[float] = []
    numbers = iter(range(num_cases))

    async def work() -> None:
        for number in numbers:
            case = random_case(Random(f"{SEED} {number}"))
            try:
                mine = statuses(*await exchange(port, case))
            except (h11.ProtocolError, AssertionError) as error:
                raise AssertionError((number, [piece[:300] for piece in case.pieces])) from error
            assert all(status < 500 for status in mine), (number, mine, case.pieces)
            statuses_found.extend(mine)

    beside = asyncio.create_task(neighbour(port, waits_s))
    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    assert not beside.done(), beside.exception()
    beside.cancel()
    return statuses_found, waits_s


@pytest.mark.parametrize("num_cases", after(1, [300, NUM_CASES]))
def test_random_requests_break_nothing(make_rig, caplog, num_cases):
    rig = make_rig()
    rig.pipeline.batches = HI
    with (
        caplog.at_level(logging.WARNING),
        RawServer(rig.app, header_timeout_s=TIMEOUT_S, body_timeout_s=TIMEOUT_S) as server,
    ):
        statuses_found, waits_s = asyncio.run(send_all(server.port, num_cases))
    for status in (200, 400, 404, 408):
        assert status in statuses_found, statuses_found
    assert waits_s
    assert max(waits_s) < STALL_S
    assert "Traceback" not in caplog.text
    assert rig.services.admission.num_inside == 0
    assert rig.services.arriving.num_bytes == 0
