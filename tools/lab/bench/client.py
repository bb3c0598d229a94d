"""Runs a load over HTTP: streams of /v1/completions with token-id prompts, with the time of each event.

Written on bare sockets, because client and server share the cores that are measured: a full HTTP client takes
more time per token than the server does.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from tools.lab.bench.load import Load, Queue, Timings

EVENT, END, USAGE = b"data: {", b"data: [DONE]", b'"usage":{'
LINE_BYTES = 1 << 20


class RequestFailed(Exception):
    """The server replied with something other than the requested tokens."""


def request_over_http(port: int, model: str, load: Load, timeout_s: float = 600.0) -> Timings:
    """Send every request at the time given by the load, until all have been answered.

    Raises RequestFailed, OSError or TimeoutError.
    """
    return asyncio.run(asyncio.wait_for(_run(port, model, load), timeout_s))


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
    body = json.dumps(fields).encode()
    head = "POST /v1/completions HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def _stream(port: int, request: bytes, output_tokens: int) -> list[float]:
    """Seconds from sending to each event; an event is one line within one chunk of the reply."""
    begin = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=LINE_BYTES)
    try:
        writer.write(request)
        status = await reader.readline()
        if b" 200 " not in status:
            raise RequestFailed((status + await reader.read()).decode(errors="replace"))
        return await _arrivals(reader, begin, output_tokens)
    finally:
        writer.close()


async def _arrivals(reader: asyncio.StreamReader, begin: float, output_tokens: int) -> list[float]:
    arrivals: list[float] = []
    while line := await reader.readline():
        if line.startswith(END):
            break
        if not line.startswith(EVENT):
            continue
        if USAGE in line:
            came = json.loads(line[len(EVENT) - 1 :])["usage"]["completion_tokens"]
            if came != output_tokens:
                raise RequestFailed(f"{came} tokens came instead of {output_tokens}")
        else:
            arrivals.append(time.perf_counter() - begin)
    else:
        raise RequestFailed("the stream ended before [DONE]")
    return arrivals
