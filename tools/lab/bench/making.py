"""Makes the loads of workloads.

Prompts are random token ids, different for every seed; answers are the chain (`bigram_chain.py`) from the
prompt's last token on, so that a prompt may hold its answer. A conversation's later turn is its earlier
prompt, a fixed reply and a new question, so that every system computes the same tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tools.lab.bench.base.load import Load, Request
from tools.lab.bench.bigram_chain import chain, ordinary
from tools.lab.bench.workloads import REPLY_TOKENS, Workload

COPIED = 0.75
"""Share of a copying prompt that is its answer and what follows it."""
MISLED_TOKENS = 3
"""Length of the pieces of the answer in a misleading prompt, each followed by a wrong token."""


def make_load(workload: Workload, seed: int, vocab_size: int) -> Load:
    """The requests of `workload`.  Loads of different seeds share no prefix."""
    rng = np.random.default_rng(seed)
    usual = ordinary(vocab_size)

    def ids(count: int) -> list[int]:
        return rng.integers(usual.start, usual.stop, size=count).tolist()

    shared = ids(workload.shared_tokens)
    requests_of_load: list[Request] = []
    for number in range(workload.requests):
        earlier = number - workload.requests // workload.turns
        before = requests_of_load[earlier].prompt + ids(REPLY_TOKENS) if earlier >= 0 else shared
        requests_of_load.append(
            Request(
                before + _question(workload, number, vocab_size, ids),
                workload.output_tokens,
                after=earlier if earlier >= 0 else None,
            )
        )
    sent_s = _arrivals(workload, rng)
    requests = [replace(request, at_s=at_s) for request, at_s in zip(requests_of_load, sent_s, strict=True)]
    return Load(
        workload.streams,
        requests,
        dict(workload.sampling),
        dict(workload.schema) if workload.schema else None,
        workload.scored,
    )


def _question(workload: Workload, number: int, vocab_size: int, ids: Callable[[int], list[int]]) -> list[int]:
    """`prompt_tokens` ids; prompts with their answer are spread evenly over the requests."""
    begun = ids(workload.prompt_tokens)
    start = begun[-1]
    if workload.misleading:
        misled = _misled(chain(vocab_size, start, workload.output_tokens), begun)
        return [*begun[: -len(misled) - 1], *misled, start]
    if int((number + 1) * workload.copying) > int(number * workload.copying):
        copied = chain(vocab_size, start, int(workload.prompt_tokens * COPIED))
        return [*copied, *begun[len(copied) :]]
    return begun


def _misled(answer: list[int], others: list[int]) -> list[int]:
    """Pieces of `answer` that end in a wrong next token, as many as fit."""
    room = (len(others) - 1) // (MISLED_TOKENS + 1)
    ends = range(1, min(len(answer), room) + 1)
    pieces = (
        [*answer[max(0, end - MISLED_TOKENS) : end], other] for end, other in zip(ends, others, strict=False)
    )
    return [token for piece in pieces for token in piece]


def _arrivals(workload: Workload, rng: np.random.Generator) -> list[float]:
    """Seconds at which requests are sent: all at once, or the later half as a Poisson process."""
    if not workload.arrivals_per_s:
        return [0.0] * workload.requests
    early = workload.requests // 2
    gaps = rng.exponential(1 / workload.arrivals_per_s, workload.requests - early)
    return [0.0] * early + np.cumsum(gaps).tolist()
