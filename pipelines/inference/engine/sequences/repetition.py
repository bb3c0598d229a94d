"""Detects an output that repeats itself, at the token that completes the last repetition of a pattern."""

from __future__ import annotations

from array import array

import numpy as np

from pipelines.wire.sampling_params import RepetitionDetection, SamplingParams


class RepetitionWatch:
    """Follows one output from its first token on; a token costs O(max_pattern_size), whatever came before.

    Needs 1 <= min_pattern_size and 2 <= min_count.  `_runs[i]` of the last tokens equal the tokens
    `_sizes[i]` before them: a pattern of that size occurs c times when `_runs[i]` is (c - 1) * size at least.
    """

    def __init__(self, wanted: RepetitionDetection, max_tokens: int) -> None:
        largest = min(wanted.max_pattern_size, max_tokens // wanted.min_count)
        self._sizes = np.arange(wanted.min_pattern_size, largest + 1)
        self._needed = self._sizes * (wanted.min_count - 1)
        self._runs = np.zeros(len(self._sizes), np.int64)

    def append(self, token_ids: array[int], num_prompt: int) -> bool:
        """Whether the output, the tokens after the prompt, repeats itself with its new last token."""
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
    """None when the request does not want it."""
    wanted = params.repetition_detection
    return None if wanted is None else RepetitionWatch(wanted, params.max_tokens)
