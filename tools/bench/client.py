"""A load over HTTP: token-id prompts to /v1/completions as streams, and when each piece arrived.

Written on bare sockets, because client and server share the cores that are measured: a full HTTP client
takes more time per token than the server does.  Knows nothing of engines or processes.
"""

from __future__ import annotations

import asyncio
import json
import time

from tools.bench.load import Load, Timings

EVENT, END, USAGE = b"data: {", b"data: [DONE]", b'"usage":{'


class RequestFailed(Exception):
    """The server answered something else than the tokens that were asked for."""


def request_over_http(port: int, model: str, load: Load) -> Timings:
    """Keep `load.concurrency` streams open until all prompts were answered.  Raises `RequestFailed`."""
    return asyncio.run(_run(port, model, load))


async def _run(port: int, model: str, load: Load) -> Timings:
    waiting = list(reversed(load.prompts))
    times: list[list[float]] = []

    async def one_after_another() -> None:
        while waiting:
            prompt = waiting.pop()
            times.append(await _stream(port, _request(model, prompt, load.output_tokens), load.output_tokens))

    begin = time.perf_counter()
    await asyncio.gather(*(one_after_another() for _ in range(load.concurrency)))
    return Timings(time.perf_counter() - begin, load.output_tokens * len(load.prompts), times)


def _request(model: str, prompt: list[int], output_tokens: int) -> bytes:
    body = json.dumps(
        {
            "model": model,
            "prompt": prompt,
            "max_tokens": output_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()
    head = "POST /v1/completions HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def _stream(port: int, request: bytes, output_tokens: int) -> list[float]:
    """Seconds from sending to each event; an event is one line, whole within one chunk of the reply."""
    begin = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
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
