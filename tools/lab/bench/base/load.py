"""The load that every system runs, and its timings: the same work for all, so that ratios are meaningful.

Pure, and of the standard library alone, since peers read it in environments of their own.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Settings:
    """Scheduling settings for all systems that support them."""

    num_blocks: int = 640
    max_sequences: int = 64
    max_step_tokens: int = 512
    max_context: int = 4096
    kv_cache: str = "u8"
    threads: int = 2


@dataclass(frozen=True)
class Request:
    """`at_s`: earliest time of sending after the start; `after`: sent when that request has ended."""

    prompt: list[int]
    output_tokens: int
    at_s: float = 0.0
    after: int | None = None


@dataclass(frozen=True)
class Load:
    """Requests in their order, at most `streams` of them in flight.

    `sampling` has vLLM's names and is empty for greedy; `schema` is the JSON Schema of every answer;
    `scored`: the log-probabilities of the prompt tokens are requested.
    """

    streams: int
    requests: list[Request]
    sampling: dict[str, float] = field(default_factory=dict)
    schema: dict[str, Any] | None = None
    scored: bool = False

    @property
    def output_tokens(self) -> int:
        return sum(request.output_tokens for request in self.requests)

    def write(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, line: str) -> Load:
        fields = json.loads(line)
        return cls(**fields | {"requests": [Request(**one) for one in fields["requests"]]})


class Timings(NamedTuple):
    """Seconds: `sent_s[r]` from the start, `token_s[r]` from sending to each arrival of tokens for `r`.

    `processor_s` is of an engine in a process of its own, `decoding_s` the part after all had a token.
    """

    wall_s: float
    sent_s: list[float]
    token_s: list[list[float]]
    processor_s: float = 0.0
    decoding_s: float = 0.0


class Queue:
    """Selects the next requests of a load to send.  0 ≤ requests in flight ≤ `load.streams`."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._waiting = list(range(len(load.requests)))
        self._done: set[int] = set()
        self._in_flight = 0

    def take(self, now_s: float) -> list[int]:
        """The requests to send now; they count as in flight from then on."""
        taken = [number for number in self._waiting if self._may_go(number, now_s)]
        taken = taken[: self._load.streams - self._in_flight]
        self._waiting = [number for number in self._waiting if number not in taken]
        self._in_flight += len(taken)
        return taken

    def done(self, number: int) -> None:
        self._done.add(number)
        self._in_flight -= 1

    @property
    def empty(self) -> bool:
        return not self._waiting and not self._in_flight

    def next_s(self) -> float | None:
        """The time of the next request that waits only for its time."""
        times = [
            self._load.requests[number].at_s
            for number in self._waiting
            if self._load.requests[number].after in (None, *self._done)
        ]
        return min(times) if times and self._in_flight < self._load.streams else None

    def _may_go(self, number: int, now_s: float) -> bool:
        request = self._load.requests[number]
        return request.at_s <= now_s and (request.after is None or request.after in self._done)
