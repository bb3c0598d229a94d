"""Which tokens Whisper's rules for times allow next in one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.wire.sampling_params import TimestampRules


class TimestampState:
    """The times of an output so far: its highest one, and whether the last two tokens are times.

    Ids below `text_end`, the end token's, are text.  The id below the first time says that there are none,
    and is never allowed.
    """

    def __init__(self, rules: TimestampRules, text_end: int, output_ids: Sequence[int]) -> None:
        self.rules = rules
        self.text_end = text_end
        self.begins = True
        self.last_is_time = False
        self.second_last_is_time = True  # what comes before the output counts as one
        self.highest = -1
        for token_id in output_ids:
            self.append(token_id)

    def append(self, token_id: int) -> None:
        self.second_last_is_time = self.begins or self.last_is_time
        self.begins = False
        self.last_is_time = token_id >= self.rules.first
        if self.last_is_time:
            self.highest = token_id

    def after(self, token_ids: Sequence[int]) -> TimestampState:
        """The state as if tokens were appended; self does not change."""
        later = copy(self)
        for token_id in token_ids:
            later.append(token_id)
        return later

    def allowed(self, row: NDArray[np.float32]) -> NDArray[np.uint32]:
        """The ids that may come next as bits, lowest id first: uint32[ceil(vocab / 32)].

        `row` holds the logits, -inf where an id is impossible already, and is changed.
        """
        first = self.rules.first
        self._forbid(row)
        if _log_of_sum(row[first:]) > row[:first].max(initial=-np.inf):
            row[:first] = -np.inf
        flags = np.zeros(-(-len(row) // 32) * 32, np.uint8)
        flags[: len(row)] = row > -np.inf
        return np.packbits(flags, bitorder="little").view(np.uint32)

    def _forbid(self, row: NDArray[np.float32]) -> None:
        first, never = self.rules.first, -np.inf
        row[first - 1] = never
        if self.begins:
            row[:first] = never
            if self.rules.max_initial is not None:
                row[first + self.rules.max_initial + 1 :] = never
        if not self.last_is_time:
            row[first : self.highest + 1] = never
        elif self.second_last_is_time:
            row[first:] = never
        else:
            row[: self.text_end] = never
            row[first : self.highest] = never


def _log_of_sum(logits: NDArray[np.float32]) -> Any:
    """The logarithm of the sum of exp(logits), -inf where all are."""
    highest = logits.max(initial=-np.inf)
    return highest if highest == -np.inf else highest + np.log(np.exp(logits - highest).sum())
