"""Sends one short request again and again at the least cost, because client and server share the cores."""

from __future__ import annotations

import json
import re
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from tools.lab.bench.tensors.clients import LENGTH, OverGRPC
from tools.lab.bench.tensors.model import INPUT, NAME, SIZES, Rows

TIMEOUT_S = 60.0
READ_BYTES = 256 << 10
CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
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


class Question(NamedTuple):
    """A request without its body's length; `headers` end with a line break each."""

    path: str
    body: bytes
    headers: str = "Content-Type: application/json\r\n"

    def encode(self) -> bytes:
        head = f"POST {self.path} HTTP/1.1\r\nHost: bench\r\n{self.headers}"
        return f"{head}Content-Length: {len(self.body)}\r\n\r\n".encode() + self.body


class OverHTTP:
    """The same question over as many connections as there are clients."""

    def __init__(self, port: int, question: Question) -> None:
        self._port, self._request = port, question.encode()

    def __call__(self, clients: int, number: int) -> list[float]:
        """Raises BadReply."""
        seconds: list[float] = []
        with selectors.DefaultSelector() as selector:
            for _ in range(clients):
                connection = socket.create_connection(("127.0.0.1", self._port), TIMEOUT_S)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                replies = self._ask(connection, number, seconds)
                next(replies)
                selector.register(connection, selectors.EVENT_READ, replies)
            while selector.get_map():
                for key, _ in selector.select(TIMEOUT_S):
                    if next(key.data, None) is None:
                        selector.unregister(key.fileobj)
        return seconds

    def _ask(self, connection: socket.socket, number: int, seconds: list[float]) -> Iterator[bool]:
        """Gives True whenever bytes of a reply are to be read."""
        with connection:
            for _ in range(number):
                begin = time.perf_counter()
                connection.sendall(self._request)
                data, size = b"", 0
                while not size or len(data) < size:
                    yield True
                    data += _received(connection)
                    size = size or _size(data)
                seconds.append(time.perf_counter() - begin)


class AsMessages:
    """Rows over gRPC, a thread for each client."""

    def __init__(self, port: int, rows: Rows) -> None:
        self._call, self._rows = OverGRPC(port), rows

    def __call__(self, clients: int, number: int) -> list[float]:
        def one(_: int) -> list[float]:
            seconds = []
            for _ in range(number):
                begin = time.perf_counter()
                self._call(self._rows)
                seconds.append(time.perf_counter() - begin)
            return seconds

        with ThreadPoolExecutor(clients) as threads:
            return [each for some in threads.map(one, range(clients)) for each in some]


def _received(connection: socket.socket) -> bytes:
    data = connection.recv(READ_BYTES)
    if not data:
        raise BadReply("the server closed the connection")
    return data


def _size(data: bytes) -> int:
    """The bytes of a whole reply, of its head and its body; 0 while the head is not whole."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return 0
    length = CONTENT_LENGTH.search(data, 0, end + 2)
    if length is None or not data.startswith(b"HTTP/1.1 200 "):
        raise BadReply(data[:500].decode(errors="replace"))
    return end + 4 + int(length[1])


def embedding(model: str) -> Question:
    """One text for its vector."""
    return Question("/v1/embeddings", _json({"model": model, "input": TEXTS[0]}))


def ranking(model: str) -> Question:
    """Four documents for their scores."""
    return Question("/v1/rerank", _json({"model": model, "query": TEXTS[0], "documents": TEXTS[1:]}))


def row() -> Rows:
    return np.random.default_rng(1).standard_normal((1, SIZES[0]), np.float32)


def row_in_json() -> Question:
    rows = row()
    tensor = {"name": INPUT, "shape": rows.shape, "datatype": "FP32", "data": rows.ravel().tolist()}
    return Question(f"/v2/models/{NAME}/infer", _json({"inputs": [tensor]}))


def row_as_bytes() -> Question:
    rows = row()
    size = {"binary_data_size": rows.nbytes}
    tensor = {"name": INPUT, "shape": rows.shape, "datatype": "FP32", "parameters": size}
    head = _json({"inputs": [tensor], "parameters": {"binary_data_output": True}})
    return Question(f"/v2/models/{NAME}/infer", head + rows.tobytes(), f"{LENGTH}: {len(head)}\r\n")


def chat(model: str) -> Question:
    """One generated token."""
    messages = [{"role": "user", "content": "Hello"}]
    return Question("/v1/chat/completions", _json({"model": model, "messages": messages, "max_tokens": 1}))


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
