"""Counts the tokens of one request as its pieces pass.  Knows nothing of text or of how usage is written."""

from __future__ import annotations

from pipelines.values import ReplyUpdate, TextUpdate
from server.generation.schema import CachedTokens, Usage


class Tally:
    """`num_ended` choices of `len(prompt_lengths) * n` have had their last piece."""

    def __init__(self, prompt_lengths: list[int], n: int) -> None:
        self.num_choices = len(prompt_lengths) * n
        self.num_ended = 0
        self._n = n
        self._num_prompt = sum(prompt_lengths)
        self._num_output = 0
        self._num_cached: dict[int, int] = {}

    @property
    def complete(self) -> bool:
        return self.num_ended == self.num_choices

    def add(self, choice: int, update: ReplyUpdate | TextUpdate) -> None:
        self._num_output += update.num_tokens
        self.num_ended += update.finish is not None
        if choice % self._n == 0:  # a prompt is computed once, for its first choice
            self._num_cached.setdefault(choice, update.num_cached)

    def usage(self) -> Usage:
        usage = self.running_usage()
        usage.prompt_tokens_details = CachedTokens(cached_tokens=sum(self._num_cached.values()))
        usage.completion_tokens_details = None
        return usage

    def running_usage(self) -> Usage:
        """The counts so far, for a chunk in the middle of a stream."""
        return Usage(
            prompt_tokens=self._num_prompt,
            total_tokens=self._num_prompt + self._num_output,
            completion_tokens=self._num_output,
        )
