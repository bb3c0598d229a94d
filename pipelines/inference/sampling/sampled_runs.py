"""Sampling after draft tokens: the state of each logit row before a token is chosen, and which tokens
count.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ops.contract import Index
from ops.draft_verification import NO_DRAFT_TOKEN, NO_TOKEN
from pipelines.inference.contracts.step import DraftRows, Sampled, Step
from pipelines.inference.sampling.logit_edits import RowEdits
from pipelines.inference.sampling.sampling_slots import SamplingSlots
from pipelines.wire.logprobs import TokenLogprobs

Edited = list[tuple[int, RowEdits]]
"""Logit rows and what changes their logits."""
Reports = list[TokenLogprobs | None]


def edits_of(step: Step, sampling: SamplingSlots) -> Edited:
    """The edits of each logit row, as if the draft tokens before it had been appended."""
    at, edits_by_slot = step.logit_slots, sampling.edits
    rows = np.flatnonzero(sampling.edited[at]).tolist()
    edited = [(j, edits) for j in rows if (edits := edits_by_slot[at[j]]) is not None]
    draft = step.draft
    if draft is None:
        return edited
    before = [draft.token_ids[j - draft.offsets[j] : j].tolist() for j, _ in edited]
    return [(j, edits.after(ids) if ids else edits) for (j, edits), ids in zip(edited, before, strict=True)]


def counters_of(step: Step, sampling: SamplingSlots) -> NDArray[np.uint64]:
    """The output position of each row's token, on which its random number depends: uint64[num_sampled]."""
    place = sampling.num_outputs[step.logit_slots]
    return (place if step.draft is None else place + step.draft.offsets).astype(np.uint64)


def gather_runs(draft: DraftRows, verified: Index, reports: Reports, scores: list[TokenLogprobs]) -> Sampled:
    """The valid tokens: `verified` has each row's token or NO_TOKEN, `reports` its log-probabilities, if
    any.
    """
    counts = verified != NO_TOKEN
    valid = np.flatnonzero(counts)
    ends = np.flatnonzero(draft.token_ids == NO_DRAFT_TOKEN)
    starts = np.concatenate([[0], ends[:-1] + 1])
    return Sampled(
        verified[valid],
        [reports[j] for j in valid.tolist()] if reports else [],
        scores,
        num_tokens=np.add.reduceat(counts, starts, dtype=np.int64),
        num_drafted=ends - starts,
        draft_logprobs=_of_draft_tokens(draft.logprobs, verified[valid] == draft.token_ids[valid], valid),
    )


def _of_draft_tokens(logprobs: Reports | None, accepted: NDArray[np.bool_], valid: Index) -> Reports:
    """The draft's own log-probabilities of the valid tokens that it drafted, None for the others."""
    if logprobs is None:
        return []
    return [logprobs[j] if true else None for j, true in zip(valid.tolist(), accepted.tolist(), strict=True)]
