"""Log-probabilities that requests want: of chosen tokens, and of prompt tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops import numpy_ops
from ops.contract import Index, SamplingOps
from ops.logprobs import as_drawn
from pipelines.inference.contracts.step import Step
from pipelines.inference.sampling.sampling_slots import SamplingSlots
from pipelines.inference.sampling.step_context import StepContext
from pipelines.wire.logprobs import TokenLogprobs


def report(
    ops: SamplingOps, raw: Any, raw_rows: Index, token_ids: Index, asking: Index, context: StepContext
) -> list[TokenLogprobs | None]:
    """Log-probabilities of the chosen tokens: one entry per sampled row, None where not requested.

    `raw_rows[i]` is the row of `raw` that holds the model's logits for logit row `asking[i]`.
    """
    if not len(asking):
        return []
    sampling, at = context.sampling, context.step.logit_slots[asking]
    temperature, share = sampling.logprob_temperature[at], sampling.logprob_top_p[at]
    changed = (temperature != 1) | (share < 1)
    reports: list[TokenLogprobs | None] = [None] * len(token_ids)
    if changed.any():
        values = ops.fetch(raw, raw_rows[changed])
        as_drawn(values, temperature[changed], share[changed])
        rows, own = np.arange(len(values)), asking[changed]
        _fill(reports, own, _wanted(numpy_ops, values, rows, token_ids[own], sampling, at[changed]))
        same = ~changed
        raw_rows, asking, at = raw_rows[same], asking[same], at[same]
    if len(asking):
        _fill(reports, asking, _wanted(ops, raw, raw_rows, token_ids[asking], sampling, at))
    return reports


def _fill(reports: list[TokenLogprobs | None], asking: Index, found: list[TokenLogprobs]) -> None:
    for row, logprobs in zip(asking.tolist(), found, strict=True):
        reports[row] = logprobs


def score(ops: SamplingOps, values: Any, step: Step) -> list[TokenLogprobs]:
    """The log-probabilities of the step's scored tokens; `values` are the unchanged logits of all its
    rows.
    """
    if step.scored is None or not step.num_scored:
        return []
    at = np.arange(step.num_sampled, step.num_logits)
    return gather(ops, values, at, step.scored.ids, step.scored.top_counts)


def _wanted(
    ops: SamplingOps,
    values: Any,
    rows: Index,
    token_ids: Index,
    sampling: SamplingSlots,
    at: NDArray[np.int32],
) -> list[TokenLogprobs]:
    """What the requests of slots `at` want to know of their tokens, whose logits are `rows` of `values`."""
    reports = gather(ops, values, rows, token_ids, sampling.num_logprobs[at])
    named = [(i, ids) for i, slot in enumerate(at.tolist()) if len(ids := sampling.logprob_ids[slot])]
    if named:
        _name(ops, values, rows, named, reports)
    return reports


def gather(ops: SamplingOps, values: Any, at: Index, token_ids: Index, tops: Index) -> list[TokenLogprobs]:
    """The log-probability of `token_ids[i]` in row `at[i]` of `values`, and the `tops[i]` most likely
    tokens.
    """
    found = ops.gather_logprobs(values, at, token_ids, int(tops.max()))
    lists = zip(tops.tolist(), *(column.tolist() for column in found), strict=True)
    return [TokenLogprobs(logprob, rank, ids[:k], top[:k]) for k, logprob, rank, ids, top in lists]


def _name(
    ops: SamplingOps, values: Any, at: Index, named: list[tuple[int, Index]], reports: list[TokenLogprobs]
) -> None:
    """Give the requests that named their alternatives these instead of the most likely, in the order
    named.
    """
    sizes = [len(ids) for _, ids in named]
    places = np.repeat(at[[i for i, _ in named]], sizes)
    all_logprobs = ops.logprobs_of(values, places, np.concatenate([ids for _, ids in named]))
    for (i, ids), logprobs in zip(named, np.split(all_logprobs, np.cumsum(sizes)[:-1]), strict=True):
        reports[i] = reports[i]._replace(top_ids=ids.tolist(), top_logprobs=logprobs.tolist())
