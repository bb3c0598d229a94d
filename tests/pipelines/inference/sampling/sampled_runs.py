"""Steps of runs for `sample`, and what the same rows give one token at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ops import numpy_ops
from ops.draft_verification import NO_DRAFT_TOKEN
from pipelines.inference.contracts.step import DraftRows, Sampled, ScoredTokens, Step
from pipelines.inference.sampling.sampling_slots import SamplingSlots
from pipelines.inference.sampling.stages import sample
from pipelines.inference.sampling.step_context import Logits, Masks, StepContext
from pipelines.wire.logprobs import TokenLogprobs


class Given(NamedTuple):
    """One run: a persistent row, its draft tokens, logits and masks (None: all is allowed) of each row."""

    row: int
    draft_tokens: list[int]
    logits: np.ndarray
    masks: list[np.ndarray | None]


class Counted(NamedTuple):
    """What one run gives."""

    token_ids: list[int]
    logprobs: list[TokenLogprobs | None]


def step_of(
    rows: SamplingSlots, at: list[int], draft: DraftRows | None = None, scored: ScoredTokens | None = None
):
    none, small = np.zeros(0, np.int64), np.zeros(0, np.int32)
    step = Step(
        token_ids=none,
        positions=none,
        starts=small,
        num_past=small,
        block_table=np.zeros((0, 0), np.int32),
        num_blocks=small,
        max_context=0,
        logit_indices=np.arange(len(at) + (0 if scored is None else len(scored.ids))),
        logit_slots=np.array(at, np.int32),
        copies=np.zeros((0, 2), np.int32),
        draft=draft,
        scored=scored,
    )
    return StepContext(step, rows)


def sample_runs(
    rows: SamplingSlots, runs: list[Given], ops=numpy_ops, upload=np.copy, scored=None, wanted=None, told=None
) -> Sampled:
    """All runs in one step; `scored`: logits of rows that score tokens of prompts, those that are `wanted`;
    `told`: the draft's own log-probabilities.
    """
    at = [run.row for run in runs for _ in run.logits]
    draft_tokens = [draft_token for run in runs for draft_token in [*run.draft_tokens, NO_DRAFT_TOKEN]]
    ahead = [i for run in runs for i in range(len(run.logits))]
    masks = masks_of([bits for run in runs for bits in run.masks])
    draft = DraftRows(np.array(draft_tokens, np.int64), np.array(ahead, np.int64), told)
    values = np.concatenate([*(run.logits for run in runs), *([] if scored is None else [scored])])
    return sample(Logits(upload(values), step_of(rows, at, draft, wanted), ops, masks))


def masks_of(given: list[np.ndarray | None]) -> Masks | None:
    found = [j for j, bits in enumerate(given) if bits is not None]
    if not found:
        return None
    return Masks(np.array(found), np.array([given[j] for j in found], np.uint32))


def one_by_one(rows: SamplingSlots, run: Given, ops=numpy_ops, upload=np.copy) -> Counted:
    """Each token appended before the next one is chosen, as long as the draft tokens are accepted."""
    counted = Counted([], [])
    for logits, bits, draft_token in zip(
        run.logits, run.masks, [*run.draft_tokens, NO_DRAFT_TOKEN], strict=True
    ):
        step = step_of(rows, [run.row])
        sampled_step = sample(Logits(upload(logits[None]), step, ops, masks_of([bits])))
        counted.token_ids.extend(sampled_step.token_ids.tolist())
        counted.logprobs.extend(sampled_step.logprobs or [None])
        rows.append(run.row, counted.token_ids[-1])
        if counted.token_ids[-1] != draft_token:
            break
    return counted


def counted_of(sampled: Sampled) -> list[Counted]:
    """Of each run."""
    assert sampled.num_tokens is not None
    ends = np.cumsum(sampled.num_tokens).tolist()
    told = sampled.logprobs or [None] * len(sampled.token_ids)
    return [
        Counted(sampled.token_ids[end - count : end].tolist(), told[end - count : end])
        for end, count in zip(ends, sampled.num_tokens.tolist(), strict=True)
    ]
