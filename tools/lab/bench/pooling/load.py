"""The load that every system runs, through a pipe or over HTTP, and its timings.

Pure, and of the standard library alone, since peers read it in environments of their own.
"""

from __future__ import annotations

import base64
import json
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from tools.client.http_client import JSON, local_client

Vectors = list[list[float]]


@dataclass(frozen=True)
class Load:
    """`texts` in requests of `per_request`, at most `streams` of them in flight."""

    texts: list[str]
    per_request: int
    streams: int

    @property
    def requests(self) -> list[list[str]]:
        starts = range(0, len(self.texts), self.per_request)
        return [self.texts[start : start + self.per_request] for start in starts]


class Timings(NamedTuple):
    """Seconds of all requests together, and of each; `first` is the embedding of the first text.

    `processor_s` is of the processes of the system, without its client.
    """

    wall_s: float
    request_s: list[float]
    first: list[float]
    processor_s: float = 0.0


Embed = Callable[[list[str]], Vectors]
"""Texts → embeddings."""


def run_load(load: Load, embed: Embed) -> Timings:
    """Run every request, in one thread per stream."""
    begin = time.perf_counter()
    with ThreadPoolExecutor(load.streams) as threads:
        done = list(threads.map(lambda texts: _timed(embed, texts), load.requests))
    wall_s = time.perf_counter() - begin
    return Timings(wall_s, [took_s for took_s, _ in done], done[0][1])


def _timed(embed: Embed, texts: list[str]) -> tuple[float, list[float]]:
    begin = time.perf_counter()
    vectors = embed(texts)
    took_s = time.perf_counter() - begin
    assert len(vectors) == len(texts)
    return took_s, [float(one) for one in vectors[0]]


class OverHTTP:
    """POST /v1/embeddings as OpenAI's client sends it: base64.  A connection for each thread."""

    def __init__(self, port: int, model: str) -> None:
        self._client, self._model = local_client(port), model

    def __call__(self, texts: list[str]) -> Vectors:
        body = {"model": self._model, "input": texts, "encoding_format": "base64"}
        answer = self._client.send("POST", "/v1/embeddings", json.dumps(body).encode(), JSON)
        return [_decoded(entry["embedding"]) for entry in json.loads(answer.body)["data"]]


def _decoded(text: str) -> list[float]:
    data = base64.b64decode(text)
    return list(struct.unpack(f"<{len(data) // 4}f", data))
