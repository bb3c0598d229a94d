"""Rows that stand behind draft tokens: what they are before a token is chosen, and what of them counts
afterwards.

Knows runs of rows (`Step.draft_tokens`); knows nothing of who drafted, or of how tokens are chosen.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ops.contract import Index
from ops.draft_verification import NO_DRAFT_TOKEN, NO_TOKEN
from pipelines.host.engine.step import Sampled, Step
from pipelines.host.sampling.logit_edits import RowEdits
from pipelines.host.sampling.sampling_slots import SamplingSlots
from pipelines.wire.logprobs import TokenLogprobs

Edited = list[tuple[int, RowEdits]]
"""Logit rows and what changes their logits."""
Reports = list[TokenLogprobs | None]


def edits_of(step: Step, sampling: SamplingSlots) -> Edited:
    """Those of the persistent rows, as they would be if the draft tokens before a row had been appended."""
    at, kept = step.logit_slots, sampling.edits
    rows = np.flatnonzero(sampling.edited[at]).tolist()
    edited = [(j, edits) for j in rows if (edits := kept[at[j]]) is not None]
    if step.draft_tokens is None or step.draft_offset is None:
        return edited
    before = [step.draft_tokens[j - step.draft_offset[j] : j].tolist() for j, _ in edited]
    return [(j, edits.after(ids) if ids else edits) for (j, edits), ids in zip(edited, before, strict=True)]


def counters_of(step: Step, sampling: SamplingSlots) -> NDArray[np.uint64]:
    """Where in its sequence's output each row's token would stand; its random number depends on it."""
    place = sampling.num_outputs[step.logit_slots]
    return (place if step.draft_offset is None else place + step.draft_offset).astype(np.uint64)


def gather_runs(step: Step, verified: Index, reports: Reports, scores: list[TokenLogprobs]) -> Sampled:
    """What counts: `verified` holds each row's token or NO_TOKEN, `reports` what is told of it, if any."""
    assert step.draft_tokens is not None
    counts = verified != NO_TOKEN
    kept = np.flatnonzero(counts)
    ends = np.flatnonzero(step.draft_tokens == NO_DRAFT_TOKEN)
    starts = np.concatenate([[0], ends[:-1] + 1])
    return Sampled(
        verified[kept],
        [reports[j] for j in kept.tolist()] if reports else [],
        scores,
        num_tokens=np.add.reduceat(counts, starts, dtype=np.int64),
        num_drafted=ends - starts,
        draft_logprobs=_of_draft_tokens(step.draft_logprobs, verified[kept] == step.draft_tokens[kept], kept),
    )


def _of_draft_tokens(told: Reports | None, came_true: NDArray[np.bool_], kept: Index) -> Reports:
    """The draft's own of those kept tokens that it had drafted."""
    if told is None:
        return []
    return [told[j] if true else None for j, true in zip(kept.tolist(), came_true.tolist(), strict=True)]
