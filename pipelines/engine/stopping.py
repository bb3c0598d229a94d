"""How a sequence grows by a token, and why it ends: end tokens, its length, an output that repeats itself.

Knows sequences; knows nothing of where tokens come from, or of who is told.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from pipelines.sampling.params import RepetitionDetection, SamplingParams

if TYPE_CHECKING:
    from pipelines.engine.sequence import Sequence
    from pipelines.sampling.guide import Guide
    from pipelines.sampling.rows import SamplingRows

Ending = tuple[str | None, int | None]
"""How a sequence ends, None while it goes on, and by which of the stop tokens that its request named."""
GOES_ON: Ending = None, None


def grow(sequence: Sequence, sampling: SamplingRows, token_id: int) -> Ending:
    """A running sequence gets its next token, unless that is an end token, which is no part of it."""
    if token_id in sequence.eos_token_ids:
        return "stop", None
    if token_id in sequence.stop_token_ids:
        return "stop", token_id
    sequence.token_ids.append(token_id)
    sampling.append(sequence.row, token_id)
    if len(sequence.token_ids) >= sequence.max_length:
        return "length", None
    if sequence.repetition is not None and _repeats(sequence, sequence.repetition):
        return "repetition", None
    return GOES_ON


def grow_guided(
    sequence: Sequence, guide: Guide, sampling: SamplingRows, token_id: int
) -> tuple[list[int], str | None, int | None]:
    """The same with the tokens that must follow it: those that it grew by, and its ending."""
    before, forced = len(sequence.token_ids), guide.append(token_id)
    finish, stop_token_id = grow(sequence, sampling, token_id)
    for next_id in forced:
        if finish is None:
            finish, stop_token_id = grow(sequence, sampling, next_id)
    taken = sequence.token_ids[before:].tolist()
    if finish is None and guide.finished:
        finish = "stop"
    return taken, finish, stop_token_id


class RepetitionWatch:
    """Follows one output from its first token on; a token costs O(max_pattern_size), whatever came before.

    Needs 1 <= min_pattern_size and 2 <= min_count.  `_runs[i]` of the last tokens equal the tokens that stand
    `_sizes[i]` before them: a pattern of that size stands there c times when it is (c - 1) * size at least.
    """

    def __init__(self, wanted: RepetitionDetection, max_tokens: int) -> None:
        largest = min(wanted.max_pattern_size, max_tokens // wanted.min_count)
        self._sizes = np.arange(wanted.min_pattern_size, largest + 1)
        self._needed = self._sizes * (wanted.min_count - 1)
        self._runs = np.zeros(len(self._sizes), np.int64)

    def append(self, token_ids: array[int], num_prompt: int) -> bool:
        """Whether the output, what stands behind the prompt, repeats itself now that it is a token longer."""
        last = len(token_ids) - 1
        known = int(np.searchsorted(self._sizes, last + 1 - num_prompt))  # sizes that stay inside the output
        if not known:
            return False
        smallest, largest = int(self._sizes[0]), int(self._sizes[known - 1])
        before = np.array(token_ids[last - largest : last - smallest + 1])[::-1]
        runs = self._runs[:known]
        runs[:] = np.where(before == token_ids[last], runs + 1, 0)
        return bool((runs >= self._needed[:known]).any())


def watch_repetition(params: SamplingParams) -> RepetitionWatch | None:
    """None when the request does not ask for it."""
    wanted = params.repetition_detection
    return None if wanted is None else RepetitionWatch(wanted, params.max_tokens)


def _repeats(sequence: Sequence, watch: RepetitionWatch) -> bool:
    """Before `min_tokens` it may repeat itself, and is watched."""
    repeats = watch.append(sequence.token_ids, sequence.num_prompt)
    return repeats and sequence.num_output >= sequence.params.min_tokens
