"""The workloads as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

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
"""A length greater than any answer's, so that every answer has its full length."""


@dataclass(frozen=True)
class Workload:
    """`requests` of `prompt_tokens` and `output_tokens`, at most `streams` in flight.

    `shared_tokens` come before every prompt, the same for all; `turns` requests make a conversation;
    `arrivals_per_s` sends the later half at random times while the earlier half decodes.  The prompts of a
    share of `copying` hold their answer; `misleading` ones hold pieces of it, each followed by a wrong token.
    `scored` requests the log-probabilities of the prompt.  `beside` names the workload without this one's
    feature.
    """

    streams: int
    requests: int
    prompt_tokens: int = 128
    output_tokens: int = 48
    shared_tokens: int = 0
    turns: int = 1
    arrivals_per_s: float = 0.0
    copying: float = 0.0
    misleading: bool = False
    sampling: Mapping[str, float] = field(default_factory=dict)
    schema: Mapping[str, Any] | None = None
    scored: bool = False
    beside: str = ""

    @property
    def context(self) -> int:
        """Tokens of its longest request."""
        asked = self.turns * (self.prompt_tokens + REPLY_TOKENS) - REPLY_TOKENS
        return self.shared_tokens + asked + self.output_tokens

    @property
    def is_draftable(self) -> bool:
        """Whether its prompts are parts of the model's output."""
        return bool(self.copying) or self.misleading

    @property
    def needs(self) -> set[str]:
        """The features that a system needs for this workload."""
        asked = {
            "sampled": self.sampling,
            "constrained": self.schema,
            "scored": self.scored,
            "batched": self.streams > 1,
        }
        return {name for name, value in asked.items() if value}


SERVING = {
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
    "not scored": Workload(8, 8, prompt_tokens=512, output_tokens=1),
    "scored": Workload(8, 8, prompt_tokens=512, output_tokens=1, scored=True, beside="not scored"),
}
PLAIN = Workload(1, 2, prompt_tokens=256, output_tokens=64)
DRAFTABLE = {
    "no copying": PLAIN,
    "copying": replace(PLAIN, copying=1.0, beside="no copying"),
    "misleading": replace(PLAIN, misleading=True, beside="no copying"),
    "copying, sampled": replace(PLAIN, copying=1.0, sampling=SAMPLED, beside="copying"),
    "no copying, 8 streams": replace(PLAIN, streams=8, requests=8),
    "copying, 8 streams": replace(PLAIN, streams=8, requests=8, copying=1.0, beside="no copying, 8 streams"),
    "half copying, 8 streams": replace(
        PLAIN, streams=8, requests=8, copying=0.5, beside="no copying, 8 streams"
    ),
    "no copying, 32 streams": replace(PLAIN, streams=32, requests=32),
    "copying, 32 streams": replace(
        PLAIN, streams=32, requests=32, copying=1.0, beside="no copying, 32 streams"
    ),
}
"""Workloads that need a bigram model: its answers are known."""
BATCHES = {"4 streams": Workload(4, 4), "16 streams": Workload(16, 16)}
WORKLOADS = SERVING | DRAFTABLE | BATCHES
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
    "copying": Workload(1, 1, output_tokens=24, copying=1.0, beside="1 stream"),
}
"""All workloads, small enough for three minutes."""
