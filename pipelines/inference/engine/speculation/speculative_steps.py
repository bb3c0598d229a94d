"""Adds draft tokens to a step: more tokens after those of a sequence, and a logit row for each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ops.draft_verification import NO_DRAFT_TOKEN
from pipelines.inference.contracts.step import DraftRows, Step
from pipelines.wire.logprobs import TokenLogprobs


def with_draft_tokens(
    step: Step,
    counts: NDArray[np.int64],
    ids: NDArray[np.int64],
    logprobs: list[TokenLogprobs | None] | None = None,
) -> Step:
    """The step with `counts[i] <= step.draft_budget[i]` draft tokens for its sequence i, taken from `ids` in
    order.

    counts: int64[num_seqs], 0 where `draft_budget` is; ids: int64[sum(counts)]; logprobs: one for each of
    ids. Only sequences of one own token, sampled once, have a budget, and they come first.
    """
    if not len(ids):
        return step
    num_seqs = step.num_seqs
    own = np.diff(step.starts)
    starts = np.zeros(num_seqs + 1, np.int32)
    np.cumsum(own + counts, out=starts[1:])
    shift = np.cumsum(counts) - counts  # of each sequence's first token
    moved = np.arange(step.num_tokens) + np.repeat(shift, own)
    token_ids = np.empty(starts[-1], np.int64)
    is_draft_token = np.ones(starts[-1], np.bool_)
    is_draft_token[moved] = False
    token_ids[moved] = step.token_ids
    token_ids[is_draft_token] = ids
    positions = np.arange(starts[-1]) + np.repeat(step.num_past - starts[:-1], own + counts)
    runs, draft_tokens, draft_offset = _runs(step, counts, ids)
    sampled_at = moved[step.logit_indices[: step.num_sampled]]
    return replace(
        step,
        token_ids=token_ids,
        positions=positions,
        starts=starts,
        max_context=int((step.num_past + own + counts).max()),
        logit_indices=np.concatenate(
            [np.repeat(sampled_at, runs) + draft_offset, moved[step.logit_indices[step.num_sampled :]]]
        ),
        logit_slots=np.repeat(step.logit_slots, runs),
        embeds=None if step.embeds is None else replace(step.embeds, places=moved[step.embeds.places]),
        position_shifts=_shifts(step, counts, moved, is_draft_token),
        draft=DraftRows(draft_tokens, draft_offset, _spread(logprobs, draft_tokens)),
    )


def _shifts(
    step: Step, counts: NDArray[np.int64], moved: NDArray[np.int64], is_draft_token: NDArray[np.bool_]
) -> NDArray[np.int64] | None:
    """The shifts of all tokens: a draft token has that of its sequence's last own token."""
    if step.position_shifts is None:
        return None
    shifts = np.empty(len(is_draft_token), np.int64)
    shifts[moved] = step.position_shifts
    shifts[is_draft_token] = np.repeat(step.position_shifts[step.starts[1:] - 1], counts)
    return shifts


def _runs(
    step: Step, counts: NDArray[np.int64], ids: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """How many rows each sampled row becomes, and of these the draft token that follows and how many come
    before.

    Those with a budget are the first sequences and, as each is sampled once, the first sampled rows.
    """
    runs = np.ones(step.num_sampled, np.int64)
    with_room = min(step.num_seqs, step.num_sampled)
    runs[:with_room] += counts[:with_room]
    ends = np.cumsum(runs)
    draft_offset = np.arange(ends[-1]) - np.repeat(ends - runs, runs)
    draft_tokens = np.full(ends[-1], NO_DRAFT_TOKEN, np.int64)
    draft_tokens[draft_offset < np.repeat(runs - 1, runs)] = ids
    return runs, draft_tokens, draft_offset


def _spread(
    logprobs: list[TokenLogprobs | None] | None, draft_tokens: NDArray[np.int64]
) -> list[TokenLogprobs | None] | None:
    if logprobs is None:
        return None
    given = iter(logprobs)
    return [None if draft_token == NO_DRAFT_TOKEN else next(given) for draft_token in draft_tokens.tolist()]
