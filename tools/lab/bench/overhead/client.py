"""Sends one short request again and again."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

import numpy as np
import uvloop

from tools.client.connection import Connection, ConnectionBroken
from tools.client.http_client import error_message
from tools.lab.bench.tensors.clients import OverGRPC, Question
from tools.lab.bench.tensors.model import SIZES, Rows

TIMEOUT_S = 60.0
TEXTS = (
    "How far away is the moon, and how long does light take from there to us?",
    "Yeast makes dough rise.",
    "The moon is 384,000 kilometres away.",
    "Light travels 300,000 kilometres in a second.",
    "Bread is baked in an oven.",
)
Send = Callable[[int, int], list[float]]
"""(clients, requests of each) → the seconds of each request."""


class BadReply(Exception):
    """A request was refused, or the connection ended."""


class OverHTTP:
    """Sends the same question over as many connections as there are clients."""

    def __init__(self, port: int, question: Question) -> None:
        self._port, self._question = port, question

    def __call__(self, clients: int, number: int) -> list[float]:
        """Raises BadReply."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return [each for some in runner.run(self._all(clients, number)) for each in some]

    async def _all(self, clients: int, number: int) -> list[list[float]]:
        connections = [Connection("127.0.0.1", self._port) for _ in range(clients)]
        try:
            for connection in connections:
                await connection.open()
            return await asyncio.gather(*(self._ask(connection, number) for connection in connections))
        except ConnectionBroken as error:
            raise BadReply(str(error)) from error
        finally:
            for connection in connections:
                connection.close()

    async def _ask(self, connection: Connection, number: int) -> list[float]:
        seconds = []
        for _ in range(number):
            begin = time.perf_counter()
            async with asyncio.timeout(TIMEOUT_S):
                await connection.send("POST", *self._question)
                reply = b"".join([piece async for piece in connection.pieces()])
            if connection.status != HTTPStatus.OK:
                raise BadReply(error_message(connection.status, reply))
            seconds.append(time.perf_counter() - begin)
        return seconds


class AsMessages:
    """Rows over gRPC, a thread for each client."""

    def __init__(self, port: int, rows: Rows) -> None:
        self._call, self._rows = OverGRPC(port), rows

    def __call__(self, clients: int, number: int) -> list[float]:
        def time_calls(_: int) -> list[float]:
            seconds = []
            for _ in range(number):
                begin = time.perf_counter()
                self._call(self._rows)
                seconds.append(time.perf_counter() - begin)
            return seconds

        with ThreadPoolExecutor(clients) as threads:
            return [seconds for some in threads.map(time_calls, range(clients)) for seconds in some]


def embedding(model: str) -> Question:
    """One text for its vector."""
    return Question("/v1/embeddings", _json({"model": model, "input": TEXTS[0]}))


def ranking(model: str) -> Question:
    """Four documents for their scores."""
    return Question("/v1/rerank", _json({"model": model, "query": TEXTS[0], "documents": TEXTS[1:]}))


def row() -> Rows:
    return np.random.default_rng(1).standard_normal((1, SIZES[0]), np.float32)


def chat(model: str) -> Question:
    """One generated token."""
    messages = [{"role": "user", "content": "Hello"}]
    return Question("/v1/chat/completions", _json({"model": model, "messages": messages, "max_tokens": 1}))


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
