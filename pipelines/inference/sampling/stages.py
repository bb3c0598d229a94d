"""STAGES: the changes of logits that apply the sampling parameters, in order, and the choice of a token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ops.contract import SamplingOps
from ops.draft_verification import NO_TOKEN
from pipelines.inference.contracts.step import Sampled
from pipelines.inference.sampling.llama_stages import apply_dry, apply_llama_samplers
from pipelines.inference.sampling.logit_edits import RowEdits
from pipelines.inference.sampling.logprob_reports import report, score
from pipelines.inference.sampling.mask_narrowing import narrow
from pipelines.inference.sampling.sampled_runs import Edited, counters_of, edits_of, gather_runs
from pipelines.inference.sampling.step_context import Logits


class Stage(NamedTuple):
    """One change of logits before a token is chosen, in place.

    `active`: whether a row needs it now; other rows are not touched and cost nothing. `forbids`: whether it
    makes tokens impossible.
    """

    name: str
    active: Callable[[RowEdits], bool]
    apply: Callable[[SamplingOps, Any, Edited], None]
    forbids: bool = False


def _apply_allowed(ops: SamplingOps, values: Any, edited: Edited) -> None:
    ops.allow_only(values, *_pairs(edited, [edits.allowed for _, edits in edited]))


def _apply_bad_words(ops: SamplingOps, values: Any, edited: Edited) -> None:
    ops.ban(values, *_pairs(edited, [edits.bans() for _, edits in edited]))


def _apply_min_tokens(ops: SamplingOps, values: Any, edited: Edited) -> None:
    ops.ban(values, *_pairs(edited, [edits.end_token_ids for _, edits in edited]))


def _apply_opening(ops: SamplingOps, values: Any, edited: Edited) -> None:
    ops.allow_only(values, *_pairs(edited, [edits.opening[edits.num_outputs] for _, edits in edited]))


def _apply_begin_suppress(ops: SamplingOps, values: Any, edited: Edited) -> None:
    ops.ban(values, *_pairs(edited, [edits.begin_suppressed for _, edits in edited]))


def _apply_timestamps(ops: SamplingOps, values: Any, edited: Edited) -> None:
    """Looks at all logits of a row: on a GPU the row is fetched for it."""
    rows = np.array([j for j, _ in edited], np.int64)
    fetched = ops.fetch(values, rows)
    bits = [edits.times.allowed(row) for row, (_, edits) in zip(fetched, edited, strict=True) if edits.times]
    ops.apply_bitmask(values, rows, np.stack(bits))


def _apply_logit_bias(ops: SamplingOps, values: Any, edited: Edited) -> None:
    rows, ids = _pairs(edited, [edits.bias_ids for _, edits in edited])
    ops.add_bias(values, rows, ids, np.concatenate([edits.bias for _, edits in edited]))


def _apply_repetition(ops: SamplingOps, values: Any, edited: Edited) -> None:
    rows, ids, sizes, _ = _seen(edited)
    penalty = np.array([edits.params.repetition_penalty for _, edits in edited], np.float32)
    ops.penalise_repetition(values, rows, ids, np.repeat(penalty, sizes))


def _apply_presence_and_frequency(ops: SamplingOps, values: Any, edited: Edited) -> None:
    rows, ids, sizes, counts = _seen(edited)
    presence = np.array([edits.params.presence_penalty for _, edits in edited], np.float32)
    frequency = np.array([edits.params.frequency_penalty for _, edits in edited], np.float32)
    ops.penalise_presence_and_frequency(
        values, rows, ids, counts, np.repeat(presence, sizes), np.repeat(frequency, sizes)
    )


STAGES = (
    Stage("allowed_token_ids", lambda edits: edits.restricts, _apply_allowed, forbids=True),
    Stage(
        "bad_words",
        lambda edits: bool(edits.params.bad_words_ids) and not edits.opens,
        _apply_bad_words,
        forbids=True,
    ),
    Stage(
        "min_tokens",
        lambda edits: edits.num_outputs < edits.params.min_tokens,
        _apply_min_tokens,
        forbids=True,
    ),
    Stage("opening", lambda edits: edits.opens, _apply_opening),
    Stage(
        "begin_suppress_tokens",
        lambda edits: edits.begins and len(edits.begin_suppressed) > 0,
        _apply_begin_suppress,
    ),
    Stage("logit_bias", lambda edits: len(edits.bias_ids) > 0, _apply_logit_bias),
    Stage("repetition_penalty", lambda edits: edits.repeats, _apply_repetition),
    Stage("presence_and_frequency_penalty", lambda edits: edits.counts, _apply_presence_and_frequency),
    Stage("dry", lambda edits: edits.repeats_cost, apply_dry),
    Stage(
        "llama_samplers",
        lambda edits: edits.params.llama is not None and edits.params.llama.masks,
        apply_llama_samplers,
        forbids=True,
    ),
    Stage("timestamps", lambda edits: edits.times is not None and not edits.opens, _apply_timestamps),
)
"""In the order of vLLM, and of transformers where vLLM has no such stage.  Then masks leave what guides
allow, and a token is chosen: greedy rows take the likeliest id; the others apply temperature, min_p, top_k
and top_p, in this order, inside one op that never writes to the logits."""


def sample(logits: Logits) -> Sampled:
    """Choose one token per sampled row, with log-probabilities where requested; score the scored rows.

    Log-probabilities are those of the model's own logits, before any stage and, unless the request wants it
    so, without temperature (vLLM's `raw_logprobs`).  Changes the sampled rows of `logits.values` in place.
    Rows after draft tokens choose as if these had been appended; rows after a draft token that is not
    accepted do not count.
    """
    step, sampling, ops = logits.context.step, logits.context.sampling, logits.ops
    at = step.logit_slots
    is_plain = logits.masks is None and step.draft is None and not step.num_scored
    if is_plain and all(sampling.plain[at].tolist()):
        return Sampled(ops.likeliest(logits.values), [])
    values = ops.writable(logits.values)
    scores = score(ops, values, step)
    if step.num_scored:
        values = values[: step.num_sampled]
    asking = np.flatnonzero(sampling.num_logprobs[at] >= 0)
    edited = edits_of(step, sampling)
    raw, raw_rows, masks = values, asking, logits.masks
    if sampling.edited[at[asking]].any() or (masks is not None and np.isin(asking, masks.rows).any()):
        raw, raw_rows = ops.take(values, asking), np.arange(len(asking))
    _edit(ops, values, edited, frozenset() if masks is None else frozenset(masks.rows.tolist()))
    if masks is not None:
        ops.apply_bitmask(values, masks.rows, narrow(masks, dict(edited)))
    rows = sampling.draws.rows(at, counters_of(step, sampling))
    token_ids = ops.choose(values, rows, None if step.draft is None else step.draft.token_ids)
    if step.draft is None:
        return Sampled(token_ids, report(ops, raw, raw_rows, token_ids, asking, logits.context), scores)
    valid = token_ids[asking] != NO_TOKEN
    reports = report(ops, raw, raw_rows[valid], token_ids, asking[valid], logits.context)
    return gather_runs(step.draft, token_ids, reports, scores)


def _edit(ops: SamplingOps, values: Any, edited: Edited, masked: frozenset[int]) -> None:
    """Stages that forbid tokens of a masked row are left to `narrow`, which never forbids them all."""
    for stage in STAGES if edited else ():
        active = [
            pair for pair in edited if stage.active(pair[1]) and not (stage.forbids and pair[0] in masked)
        ]
        if active:
            stage.apply(ops, values, active)


def _pairs(edited: Edited, ids: list[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Flat pairs (row, id) of ragged lists of ids."""
    rows = np.array([j for j, _ in edited], np.int64)
    return np.repeat(rows, [len(some) for some in ids]), np.concatenate(ids)


def _seen(edited: Edited) -> tuple[NDArray[np.int64], NDArray[np.int64], list[int], NDArray[np.float32]]:
    """Flat rows and ids of seen tokens, how many each row has, and their counts in the output."""
    seen = [edits.seen for _, edits in edited]
    rows, ids = _pairs(edited, [one.ids[: one.size] for one in seen])
    counts = np.concatenate([one.counts[: one.size] for one in seen])
    return rows, ids, [one.size for one in seen], counts
