"""The workloads, as data, and the loads that are made of them.  Knows nothing of who answers them.

Prompts are random token ids, different for every seed.  A conversation's later turn is its earlier prompt, a
fixed reply and a new question, so that every contender computes the same tokens whatever it answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tools.bench.load import Load, Request

LOWEST_ID = 300
"""Ids below are bytes of the model's tokenizer."""
REPLY_TOKENS = 48

SAMPLED = {
    "temperature": 0.8,
    "top_p": 0.95,
    "top_k": 50,
    "repetition_penalty": 1.1,
    "presence_penalty": 0.2,
    "frequency_penalty": 0.2,
}
PEOPLE = {
    "type": "array",
    "minItems": 100,
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "member": {"type": "boolean"}},
        "required": ["name", "age", "member"],
        "additionalProperties": False,
    },
}
"""Longer than any answer, so that every answer has its full length."""


@dataclass(frozen=True)
class Workload:
    """`requests` of `prompt_tokens` and `output_tokens`, at most `streams` in flight.

    `shared_tokens` come before every prompt, the same for all; `turns` requests make a conversation;
    `arrivals_per_s` sends the later half at random times while the earlier half decodes; `passage_tokens`
    are repeated until they fill the prompt.  `beside` names the workload without this one's feature.
    """

    streams: int
    requests: int
    prompt_tokens: int = 128
    output_tokens: int = 48
    shared_tokens: int = 0
    turns: int = 1
    arrivals_per_s: float = 0.0
    passage_tokens: int = 0
    sampling: Mapping[str, float] = field(default_factory=dict)
    schema: Mapping[str, Any] | None = None
    beside: str = ""

    @property
    def context(self) -> int:
        """Tokens of its longest request."""
        asked = self.turns * (self.prompt_tokens + REPLY_TOKENS) - REPLY_TOKENS
        return self.shared_tokens + asked + self.output_tokens

    @property
    def needs(self) -> set[str]:
        """What a contender must be able to do for this."""
        asked = {"sampled": self.sampling, "constrained": self.schema, "batched": self.streams > 1}
        return {name for name, value in asked.items() if value}


WORKLOADS = {
    "1 stream": Workload(1, 2),
    "8 streams": Workload(8, 8),
    "32 streams": Workload(32, 32),
    "64 streams": Workload(64, 64),
    "long prompt": Workload(1, 1, prompt_tokens=2048, output_tokens=64),
    "own prefix": Workload(1, 8, prompt_tokens=1024 + 64, output_tokens=16),
    "shared prefix": Workload(
        1, 8, prompt_tokens=64, output_tokens=16, shared_tokens=1024, beside="own prefix"
    ),
    "conversations": Workload(4, 12, prompt_tokens=96, output_tokens=32, turns=3),
    "arrivals": Workload(64, 16, arrivals_per_s=2.0),
    "sampled": Workload(32, 32, sampling=SAMPLED, beside="32 streams"),
    "sampled, 1 stream": Workload(1, 2, sampling=SAMPLED, beside="1 stream"),
    "constrained": Workload(32, 32, schema=PEOPLE, beside="32 streams"),
    "constrained, 1 stream": Workload(1, 2, schema=PEOPLE, beside="1 stream"),
    "no copying": Workload(1, 2, prompt_tokens=256, output_tokens=64),
    "copying": Workload(1, 2, prompt_tokens=256, output_tokens=64, passage_tokens=64, beside="no copying"),
}
SMALL = {"streams": 8, "requests": 8, "prompt_tokens": 64, "output_tokens": 12}
QUICK = {
    "1 stream": replace(WORKLOADS["1 stream"], requests=1, output_tokens=24),
    "8 streams": replace(WORKLOADS["8 streams"], **SMALL),
    "long prompt": replace(WORKLOADS["long prompt"], prompt_tokens=512, output_tokens=8),
    "own prefix": replace(WORKLOADS["own prefix"], requests=3, prompt_tokens=256 + 16, output_tokens=4),
    "shared prefix": replace(
        WORKLOADS["shared prefix"], requests=3, prompt_tokens=16, output_tokens=4, shared_tokens=256
    ),
    "sampled": replace(WORKLOADS["sampled"], **SMALL, beside="8 streams"),
    "constrained": replace(WORKLOADS["constrained"], **SMALL, beside="8 streams"),
}
"""The same questions, small enough for three minutes."""


def make_load(workload: Workload, seed: int, vocab_size: int) -> Load:
    """The requests of `workload`.  Loads of different seeds share no prefix."""
    rng = np.random.default_rng(seed)

    def ids(count: int) -> list[int]:
        return rng.integers(min(LOWEST_ID, vocab_size // 2), vocab_size - 8, size=count).tolist()

    shared = ids(workload.shared_tokens)
    made: list[Request] = []
    for number in range(workload.requests):
        earlier = number - workload.requests // workload.turns
        before = made[earlier].prompt + ids(REPLY_TOKENS) if earlier >= 0 else shared
        made.append(
            Request(
                before + (_passage(workload, ids) or ids(workload.prompt_tokens)),
                workload.output_tokens,
                after=earlier if earlier >= 0 else None,
            )
        )
    sent_s = _arrivals(workload, rng)
    requests = [replace(request, at_s=at_s) for request, at_s in zip(made, sent_s, strict=True)]
    return Load(
        workload.streams,
        requests,
        dict(workload.sampling),
        dict(workload.schema) if workload.schema else None,
    )


def _passage(workload: Workload, ids: Any) -> list[int]:
    if not workload.passage_tokens:
        return []
    return (ids(workload.passage_tokens) * workload.prompt_tokens)[: workload.prompt_tokens]


def _arrivals(workload: Workload, rng: np.random.Generator) -> list[float]:
    """Seconds at which requests are sent: all at once, or the later half as a Poisson process."""
    if not workload.arrivals_per_s:
        return [0.0] * workload.requests
    early = workload.requests // 2
    gaps = rng.exponential(1 / workload.arrivals_per_s, workload.requests - early)
    return [0.0] * early + np.cumsum(gaps).tolist()
