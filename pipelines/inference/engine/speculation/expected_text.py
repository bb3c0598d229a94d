"""Follows a sequence whose output is expected, as where another model has replied to the same request."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from pipelines.inference.engine.speculation.ngram_index import CopyTracker, TrackedTokens

AS_MATCHED = 12
"""The expected text counts as a copy of which this many tokens have matched, until another token comes."""


class ExpectingTracker(CopyTracker):
    """Copies from the expected text as long as the output equals it, then from what repeats in either.

    The expected tokens stand before those of the sequence, of which the first `num_prompt` are its prompt.
    """

    def __init__(self, longest: int, owner: int, expected: Sequence[int], num_prompt: int) -> None:
        super().__init__(longest, owner)
        self._tokens = array("q", expected)
        self._num_expected = len(expected)
        self._num_prompt = num_prompt

    def follow(self, token_ids: array[int]) -> TrackedTokens | None:
        known = len(self._tokens) - self._num_expected
        self._tokens.extend(token_ids[known:])
        followed = super().follow(self._tokens)
        if not known:
            self._begin(token_ids[self._num_prompt :])
        return followed

    def next_ids(self, token_ids: array[int], count: int) -> list[int]:
        return super().next_ids(self._tokens, count)

    def _begin(self, output: array[int]) -> None:
        """Point behind the output, where the expected text begins with it."""
        num_output = len(output)
        if num_output < self._num_expected and self._tokens[:num_output] == output:
            self.back, self.matched = len(self._tokens) - num_output, AS_MATCHED
