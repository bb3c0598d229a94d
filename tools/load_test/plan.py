"""The requests of a load test, and when each is sent."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.load_test.lengths import Lengths
from tools.load_test.prompts import Prompts, request_fields


@dataclass(frozen=True)
class Load:
    """What is sent: by `streams` clients, one request after the other; or with `rate` at random times, that
    many a second.  `fields` go into every request.
    """

    model: str
    is_chat: bool
    requests: int
    prompt: Lengths
    output: Lengths
    streams: int | None
    rate: float | None = None
    seed: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return "/chat/completions" if self.is_chat else "/completions"


@dataclass(frozen=True)
class PlannedRequest:
    """`at_s`: when it is due, from the start; None: as soon as a stream is free."""

    body: bytes
    output_tokens: int
    at_s: float | None = None


def plan(load: Load, prompts: Prompts, count: int) -> list[PlannedRequest]:
    """Plans the requests, always alike for one seed and server.  Raises RequestFailed."""
    lengths, arrivals = random.Random(f"{load.seed} lengths"), random.Random(f"{load.seed} arrivals")
    planned, at_s = [], 0.0
    for _ in range(count):
        text = prompts.make(load.prompt.draw(lengths))
        output_tokens = load.output.draw(lengths)
        planned.append(
            PlannedRequest(_body(load, text, output_tokens), output_tokens, at_s if load.rate else None)
        )
        at_s += arrivals.expovariate(load.rate) if load.rate else 0.0
    return planned


def _body(load: Load, text: str, output_tokens: int) -> bytes:
    fields = {
        "model": load.model,
        **request_fields(load.is_chat, text),
        "max_tokens": output_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **load.fields,
    }
    return json.dumps(fields).encode()
