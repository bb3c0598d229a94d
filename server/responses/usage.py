"""Counts the tokens of one response as its pieces pass.  Knows nothing of text or of events."""

from __future__ import annotations

from pipelines.values import ReplyUpdate
from server.responses.schema import InputDetails, OutputDetails, ResponseUsage


class Counts:
    """Tokens of the input, of it those found in the cache; tokens of the output, of it the reasoning."""

    def __init__(self, num_input: int) -> None:
        self._num_input = num_input
        self._num_output = self._num_cached = self._num_reasoning = 0

    def add(self, update: ReplyUpdate) -> None:
        if self._num_output == 0:
            self._num_cached = update.num_cached
        self._num_output += update.num_tokens
        self._num_reasoning += update.num_reasoning or 0

    def usage(self) -> ResponseUsage:
        return ResponseUsage(
            input_tokens=self._num_input,
            input_tokens_details=InputDetails(cached_tokens=self._num_cached),
            output_tokens=self._num_output,
            output_tokens_details=OutputDetails(reasoning_tokens=self._num_reasoning),
            total_tokens=self._num_input + self._num_output,
        )
