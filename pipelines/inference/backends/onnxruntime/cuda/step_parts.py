"""Splits a step into parts: runs of consecutive sequences that a device computes one after the other.

Most steps are one part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from pipelines.inference.contracts.step import RecurrentStates, ScoredTokens, Step, no_pairs


@dataclass(frozen=True, slots=True)
class StepPart:
    """Some consecutive sequences of a step as a step of their own.

    Row `j` of its logits is row `first_logit + j` of the whole step's.
    """

    step: Step
    first_logit: int

    @property
    def decodes(self) -> bool:
        """Whether every sequence has one new token and one logit row, in order."""
        count = self.step.num_seqs
        return self.step.num_tokens == count == self.step.num_logits and bool(
            (self.step.logit_indices == np.arange(count)).all()
        )


@dataclass(frozen=True, slots=True)
class PartLimits:
    """Upper limits of one part.

    `gathered_tokens` None: prompt chunks and decoding sequences share a part.  Otherwise they do not, and
    sequences with more than one new token share a part only while their number times the longest context
    among them is within it.  A single sequence is always a part.
    """

    sequences: int
    gathered_tokens: int | None = None


def split_step(step: Step, limits: PartLimits) -> list[StepPart]:
    """The parts of a step, in order, without its copies and swaps.

    `step.logit_indices` must ascend when there are several parts (ValueError).
    """
    bounds = _bounds(step, limits)
    if len(bounds) == 2:
        return [StepPart(step, 0)]
    if (np.diff(step.logit_indices) < 0).any():
        raise ValueError("logits_at of a step in several parts does not ascend")
    return [_part(step, first, last) for first, last in pairwise(bounds)]


def _bounds(step: Step, limits: PartLimits) -> list[int]:
    """Sequence numbers from 0 to num_seqs, ascending: the boundaries of the parts."""
    num_seqs = step.num_seqs
    if limits.gathered_tokens is None:
        return [*range(0, num_seqs, limits.sequences), num_seqs]
    num_new = np.diff(step.starts)
    decoding = num_seqs if (num_new == 1).all() else int(np.argmax(num_new > 1))
    bounds, first = list(range(0, decoding, limits.sequences)), decoding
    contexts = step.num_past + num_new
    while first < num_seqs:
        bounds.append(first)
        first += _fitting(contexts[first : first + limits.sequences].tolist(), limits.gathered_tokens)
    return [*bounds, num_seqs]


def _fitting(contexts: list[int], gathered_tokens: int) -> int:
    """How many of the sequences, from the first on, fit in one part; at least one."""
    longest = 0
    for count, context in enumerate(contexts):
        longest = max(longest, context)
        if count and (count + 1) * longest > gathered_tokens:
            return count
    return len(contexts)


def _part(step: Step, first: int, last: int) -> StepPart:
    begin, end = int(step.starts[first]), int(step.starts[last])
    first_logit, last_logit = np.searchsorted(step.logit_indices, [begin, end]).tolist()
    starts, num_past = step.starts[first : last + 1] - begin, step.num_past[first:last]
    return StepPart(
        replace(
            step,
            token_ids=step.token_ids[begin:end],
            positions=step.positions[begin:end],
            starts=starts,
            num_past=num_past,
            block_table=step.block_table[first:last],
            num_blocks=step.num_blocks[first:last],
            adapters=step.adapters[first:last],
            max_context=int((num_past + np.diff(starts)).max()),
            logit_indices=step.logit_indices[first_logit:last_logit] - begin,
            logit_slots=step.logit_slots[first_logit:last_logit],
            scored=_scored(step, first_logit, last_logit),
            states=_states(step, first, last),
            copies=no_pairs(),
            swaps_out=no_pairs(),
            swaps_in=no_pairs(),
        ),
        first_logit,
    )


def _scored(step: Step, first_logit: int, last_logit: int) -> ScoredTokens | None:
    """The scored tokens of these logit rows."""
    if step.scored is None:
        return None
    rows = slice(max(0, first_logit - step.num_sampled), max(0, last_logit - step.num_sampled))
    return ScoredTokens(step.scored.ids[rows], step.scored.top_counts[rows])


def _states(step: Step, first: int, last: int) -> RecurrentStates | None:
    """The rows of states of these sequences."""
    if step.states is None:
        return None
    return RecurrentStates(step.states.table[first:last], step.states.interval[first:last])
