"""Reads the result of a step run by run: the next token of a sequence and the tokens after accepted
drafts.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.inference.contracts.step import Sampled
from pipelines.wire.logprobs import TokenLogprobs


class AcceptedRun(NamedTuple):
    """The result of `num_drafted` draft tokens.

    The first `len(later)` were accepted: `later` are the tokens chosen after each of them, with
    log-probabilities where requested; `draft_logprobs` are the draft's own of these draft tokens, or [].
    """

    num_drafted: int
    later: list[tuple[int, TokenLogprobs | None]]
    draft_logprobs: list[TokenLogprobs]


class Chosen(NamedTuple):
    """The next token of a sequence; `run` is None where nothing was drafted."""

    token_id: int
    logprobs: TokenLogprobs | None
    run: AcceptedRun | None


def first_ids(sampled: Sampled) -> NDArray[np.int64]:
    """The first token of each run: int64[num_runs]."""
    if sampled.num_tokens is None:
        return sampled.token_ids
    begins = np.cumsum(sampled.num_tokens) - sampled.num_tokens
    return np.asarray(sampled.token_ids[begins], np.int64)


def runs_of(sampled: Sampled) -> Iterator[Chosen]:
    """The chosen tokens of each run, in the order of the step's sampled logit rows."""
    tokens = zip(sampled.token_ids.tolist(), sampled.logprobs or repeat(None), strict=False)
    if sampled.num_tokens is None:
        return (Chosen(*token, run=None) for token in tokens)
    return _runs(list(tokens), sampled)


def _runs(tokens: list[tuple[int, TokenLogprobs | None]], sampled: Sampled) -> Iterator[Chosen]:
    assert sampled.num_tokens is not None
    assert sampled.num_drafted is not None
    start = 0
    for count, num_drafted in zip(sampled.num_tokens.tolist(), sampled.num_drafted.tolist(), strict=True):
        end = start + count
        drafted = [one for one in sampled.draft_logprobs[start : end - 1] if one is not None]
        run = AcceptedRun(num_drafted, tokens[start + 1 : end], drafted) if num_drafted else None
        yield Chosen(*tokens[start], run)
        start = end
