"""Runs a load over HTTP: streams of /v1/completions with token-id prompts, with the time of each event."""

from __future__ import annotations

import asyncio
import json
import time
from http import HTTPStatus
from typing import Any

from tools.client.connection import Connection, ConnectionBroken
from tools.client.event_lines import END
from tools.client.timed_reply import TimedPieces, timed_events, timed_pieces, whole
from tools.lab.bench.base.load import Load, Queue, Timings

PATH = "/v1/completions"
USAGE = b'"usage":{'


class RequestFailed(Exception):
    """The server replied with something other than the requested tokens."""


def request_over_http(port: int, model: str, load: Load, timeout_s: float = 600.0) -> Timings:
    """Send every request at the time given by the load, until all have been answered.

    Raises RequestFailed, OSError or TimeoutError.
    """

    async def bounded() -> Timings:
        async with asyncio.timeout(timeout_s):
            return await _run(port, model, load)

    return asyncio.run(bounded())


async def _run(port: int, model: str, load: Load) -> Timings:
    queue = Queue(load)
    streams: dict[asyncio.Task[list[float]], int] = {}
    sent_s = [0.0] * len(load.requests)
    token_s: list[list[float]] = [[] for _ in load.requests]
    bodies = [_request(model, load, number) for number in range(len(load.requests))]
    begin = time.perf_counter()
    try:
        while not queue.empty:
            now = time.perf_counter() - begin
            for number in queue.take(now):
                sent_s[number] = time.perf_counter() - begin
                stream = _stream(port, bodies[number], load.requests[number].output_tokens)
                streams[asyncio.create_task(stream)] = number
            for task in await _some(streams, queue.next_s(), now):
                token_s[streams[task]] = task.result()
                queue.done(streams.pop(task))
    finally:
        for task in streams:
            task.cancel()
    return Timings(time.perf_counter() - begin, sent_s, token_s)


async def _some(streams: dict[asyncio.Task[list[float]], int], next_s: float | None, now_s: float) -> set:
    """Wait for ended streams, until the next request is due at the latest."""
    pause_s = None if next_s is None else max(0.0, next_s - now_s)
    if not streams:
        await asyncio.sleep(pause_s or 0.0)
        return set()
    done, _ = await asyncio.wait(streams, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
    return done


def _request(model: str, load: Load, number: int) -> bytes:
    request = load.requests[number]
    fields: dict[str, Any] = {
        "model": model,
        "prompt": request.prompt,
        "max_tokens": request.output_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        **load.sampling,
    }
    if load.schema is not None:
        fields["structured_outputs"] = {"json": load.schema}
    if load.scored:
        fields |= {"echo": True, "logprobs": 1}
    return json.dumps(fields).encode()


async def _stream(port: int, body: bytes, output_tokens: int) -> list[float]:
    """Seconds from sending to each event, over a connection of its own."""
    begin_s = time.perf_counter()
    connection = Connection("127.0.0.1", port)
    try:
        await connection.send("POST", PATH, body)
        pieces = await timed_pieces(connection, lambda: time.perf_counter() - begin_s)
    except ConnectionBroken as error:
        raise RequestFailed(f"the stream ended before [DONE]: {error}") from error
    finally:
        connection.close()
    if connection.status != HTTPStatus.OK:
        reason = HTTPStatus(connection.status).phrase
        raise RequestFailed(f"{connection.status} {reason}: {whole(pieces).decode(errors='replace')}")
    return _arrivals(pieces, output_tokens)


def _arrivals(pieces: TimedPieces, output_tokens: int) -> list[float]:
    arrivals: list[float] = []
    for at_s, event in timed_events(pieces):
        if event == END:
            return arrivals
        if USAGE not in event:
            arrivals.append(at_s)
        elif (received := json.loads(event)["usage"]["completion_tokens"]) != output_tokens:
            raise RequestFailed(f"{received} tokens came instead of {output_tokens}")
    raise RequestFailed("the stream ended before [DONE]")
