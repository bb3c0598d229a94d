"""Sends the requests of a soak on several connections, and records what became of each."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tools.client.connection import Connection, ConnectionBroken
from tools.lab.soak.request_kinds import SoakRequest, soak_request

REQUEST_TIMEOUT_S = 120.0
POLL_S = 0.1
STREAM_ERRORS = (b'data: {"error"', b"event: error", b"event: response.failed")
REASON_LENGTH = 200


class Outcome(NamedTuple):
    """`error` is empty where the reply was the expected one."""

    kind: str
    seconds: float
    error: str


async def send_all(
    connections: list[Connection], seed: int, count: int, record: Callable[[Outcome], None]
) -> None:
    """Send requests 0 to `count`, one at a time on each connection."""
    numbers = iter(range(count))
    await asyncio.gather(*(_send_on(connection, seed, numbers, record) for connection in connections))


async def _send_on(
    connection: Connection, seed: int, numbers: Iterator[int], record: Callable[[Outcome], None]
) -> None:
    for number in numbers:
        kind, request = soak_request(seed, number)
        begin = time.perf_counter()
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                error = await carry_out(connection, request)
        except (OSError, ConnectionBroken, TimeoutError) as broken:
            connection.close()
            error = f"{type(broken).__name__}: {broken}"
        record(Outcome(kind, time.perf_counter() - begin, error))


async def carry_out(connection: Connection, request: SoakRequest) -> str:
    """What is wrong with the reply to one request; empty where nothing is."""
    await connection.send(request.method, request.path, request.body)
    if request.hang_up_after == 0:
        connection.close()
        return ""
    reply = b""
    num_pieces = 0
    async for piece in connection.pieces():
        reply += piece
        num_pieces += 1
        if request.hang_up_after == num_pieces:
            connection.close()
            return _problem(request, connection.status, reply)
    if request.polled and connection.status == 200:
        return await _poll(connection, json.loads(reply)["id"])
    return _problem(request, connection.status, reply)


async def _poll(connection: Connection, response_id: str) -> str:
    """Read a background response until it has ended."""
    while True:
        await asyncio.sleep(POLL_S)
        await connection.send("GET", f"/v1/responses/{response_id}", b"")
        reply = b"".join([piece async for piece in connection.pieces()])
        status = json.loads(reply).get("status") if connection.status == 200 else None
        if status not in ("queued", "in_progress"):
            return "" if status in ("completed", "incomplete") else _shown(connection.status, reply)


def _problem(request: SoakRequest, status: int, reply: bytes) -> str:
    broken = any(mark in reply for mark in STREAM_ERRORS)
    if status != request.status or broken or request.holds not in reply:
        return _shown(status, reply)
    return ""


def _shown(status: int, reply: bytes) -> str:
    return f"{status} {reply[:REASON_LENGTH].decode(errors='replace')}"
