"""Computes rates and percentiles from the timings of a load."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tools.lab.bench.base.load import Load, Timings


class Figures(NamedTuple):
    """`tokens_per_s`: output over the whole time, prompts included; `prompt_tokens_per_s`: prompt tokens over
    the time in which at least one prompt waited for its first token; `decode_tokens_per_s`: of one stream,
    after its first token; `tokens_per_event`: more than one when draft tokens were accepted.
    """

    tokens_per_s: float
    prompt_tokens_per_s: float
    decode_tokens_per_s: float
    tokens_per_event: float
    first_p50_ms: float
    first_p99_ms: float
    gap_p50_ms: float
    gap_p99_ms: float


def figures(load: Load, timings: Timings) -> Figures:
    firsts = [times[0] for times in timings.token_s]
    gaps = [later - earlier for times in timings.token_s for earlier, later in pairwise(times)]
    waits = [(sent, sent + first) for sent, first in zip(timings.sent_s, firsts, strict=True)]
    decoded = [
        (request.output_tokens - 1) / (times[-1] - times[0])
        for request, times in zip(load.requests, timings.token_s, strict=True)
        if times[-1] > times[0]
    ]
    return Figures(
        load.output_tokens / timings.wall_s,
        sum(len(request.prompt) for request in load.requests) / covered(waits),
        float(np.median(decoded)) if decoded else 0.0,
        load.output_tokens / sum(map(len, timings.token_s)),
        *percentiles_ms(firsts),
        *percentiles_ms(gaps),
    )


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """The length of the union of spans (begin, end)."""
    length, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        length += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return length


def percentiles_ms(seconds: Sequence[float]) -> tuple[float, float]:
    """The median and the 99th percentile in ms; 0 for an empty list."""
    if not seconds:
        return 0.0, 0.0
    return float(np.percentile(seconds, 50)) * 1000, float(np.percentile(seconds, 99)) * 1000
