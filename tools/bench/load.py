"""What every contender is asked, and what came when: the same work for all, so that ratios mean something.

Pure: knows nothing of engines, servers or processes.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Settings:
    """Scheduling that all contenders share."""

    num_blocks: int = 256
    max_sequences: int = 64
    max_step_tokens: int = 512
    kv_cache: str = "u8"


@dataclass(frozen=True)
class Load:
    """`concurrency` requests in flight until all `prompts` were answered by `output_tokens` tokens each."""

    concurrency: int
    output_tokens: int
    prompts: list[list[int]]

    def write(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, line: str) -> Load:
        return cls(**json.loads(line))


class Timings(NamedTuple):
    """`token_s[r]`: seconds from sending request `r` to each arrival of tokens for it."""

    wall_s: float
    output_tokens: int
    token_s: list[list[float]]

    def write(self) -> str:
        return json.dumps(self)

    @classmethod
    def read(cls, line: str) -> Timings:
        return cls(*json.loads(line))


class Figures(NamedTuple):
    """One row of the table."""

    tokens_per_s: float
    first_p50_ms: float
    first_p99_ms: float
    gap_p50_ms: float
    gap_p99_ms: float


def figures(timings: Timings) -> Figures:
    """Output tokens per second, and percentiles of the time to the first token and between tokens."""
    firsts = [times[0] for times in timings.token_s]
    gaps = [later - earlier for times in timings.token_s for earlier, later in pairwise(times)]
    milliseconds = [
        float(np.percentile(values, percent)) * 1000 for values in (firsts, gaps) for percent in (50, 99)
    ]
    return Figures(timings.output_tokens / timings.wall_s, *milliseconds)


def random_load(
    concurrency: int, num_requests: int, prompt_tokens: int, output_tokens: int, seed: int
) -> Load:
    """Prompts of random ids, different for every seed, so that no prefix is shared."""
    rng = np.random.default_rng(seed)
    prompts = rng.integers(300, 150_000, size=(num_requests, prompt_tokens)).tolist()
    return Load(concurrency, output_tokens, prompts)
