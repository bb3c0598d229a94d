"""Counts the tokens of streams over HTTP at the least cost, because client and server share the cores."""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any, NamedTuple, cast

import uvloop

EVENT, END = b"data: {", b"data: [DONE]"
USAGE = re.compile(rb'"completion_tokens":(\d+)')
TAIL_BYTES = 1024
"""The usage of a stream is within this many bytes of its end."""
PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}
PROMPT = " aa"


class StreamCount(NamedTuple):
    """Totals of all streams, from the first request to the last end."""

    wall_s: float
    cpu_s: float  # of this process
    num_tokens: int
    num_events: int


class StreamBroken(Exception):
    """A stream ended before its last event; the message shows its end."""


class _Stream(asyncio.Protocol):
    """One request and its reply; the result of `ended` is (number of tokens, number of events)."""

    def __init__(self, request: bytes, ended: asyncio.Future[tuple[int, int]]) -> None:
        self._request, self._ended = request, ended
        self._num_events = 0
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._num_events += data.count(EVENT)
        self._tail = self._tail[-TAIL_BYTES:] + data
        if END in self._tail and not self._ended.done():
            self._ended.set_result((int(USAGE.findall(self._tail)[-1]), self._num_events))
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._ended.done():
            self._ended.set_exception(StreamBroken(self._tail.decode(errors="replace")))


def count(port: int, endpoint: str, model: str, streams: int, tokens: int) -> StreamCount:
    """Run `streams` greedy requests for `tokens` tokens concurrently.  Raises StreamBroken and OSError."""
    request = _request(PATHS[endpoint], model, tokens)
    begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        ends = runner.run(_ends(port, request, streams))
    wall_s, cpu_s = time.perf_counter() - begin_s, time.process_time() - begin_cpu_s
    return StreamCount(wall_s, cpu_s, sum(one for one, _ in ends), sum(one for _, one in ends))


async def _ends(port: int, request: bytes, streams: int) -> list[tuple[int, int]]:
    loop = asyncio.get_running_loop()
    ends: list[asyncio.Future[tuple[int, int]]] = [loop.create_future() for _ in range(streams)]
    for ended in ends:
        await loop.create_connection(lambda ended=ended: _Stream(request, ended), "127.0.0.1", port)
    return await asyncio.gather(*ends)


def _request(path: str, model: str, tokens: int) -> bytes:
    asked: dict[str, Any] = {"model": model, "max_tokens": tokens, "ignore_eos": True, "temperature": 0}
    asked |= {"stream": True, "stream_options": {"include_usage": True}}
    if path == PATHS["chat"]:
        asked["messages"] = [{"role": "user", "content": PROMPT}]
    else:
        asked["prompt"] = PROMPT
    body = json.dumps(asked).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
