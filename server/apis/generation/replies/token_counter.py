"""Counts the tokens of one request while its updates pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pipelines.values.reply_values import ReplyUpdate, TextUpdate
from pipelines.wire.token_piece import Speculation
from pipelines.worker.spent import NOTHING_SPENT, Spent
from server.schema.reply_models import CachedTokens, CompletionDetails, Usage


class TokenCounter:
    """Tokens of all choices of one request; `num_ended` of its `num_choices` choices have ended.

    `num_reasoning` is None where reasoning is not parsed.  `speculation` has the totals of each choice for
    which tokens were drafted.  `others` is what calls of other models have spent so far.
    """

    def __init__(
        self, prompt_lengths: list[int], n: int, others: Callable[[], Spent] = lambda: NOTHING_SPENT
    ) -> None:
        self.num_choices = len(prompt_lengths) * n
        self.num_ended = 0
        self._num_prompt = sum(prompt_lengths)
        self._num_output = 0
        self._others = others
        self.num_reasoning: int | None = None
        self._n = n
        self._num_cached: dict[int, int] = {}
        self.speculation: dict[int, Speculation] = {}

    @property
    def complete(self) -> bool:
        return self.num_ended == self.num_choices

    @property
    def num_prompt(self) -> int:
        return self._num_prompt + self._others().num_prompt

    @property
    def num_output(self) -> int:
        return self._num_output + self._others().num_output

    @property
    def num_cached(self) -> int:
        return sum(self._num_cached.values()) + self._others().num_cached

    def add(self, choice: int, update: ReplyUpdate | TextUpdate) -> None:
        piece = update.piece
        self._num_output += piece.num_tokens
        self.num_ended += piece.finish is not None
        if isinstance(update, ReplyUpdate) and update.num_reasoning is not None:
            self.num_reasoning = (self.num_reasoning or 0) + update.num_reasoning
        if piece.speculation is not None:
            self.speculation[choice] = piece.speculation
        self._note_cached(choice, piece.num_cached)

    def foresee(self, batch: Iterable[tuple[int, ReplyUpdate | TextUpdate]]) -> None:
        """Note which tokens of the prompts were reused, before the updates that say so are added."""
        for choice, update in batch:
            self._note_cached(choice, update.piece.num_cached)

    def _note_cached(self, choice: int, num_cached: int) -> None:
        if choice % self._n == 0:  # a prompt is computed once, for its first choice
            self._num_cached.setdefault(choice, num_cached)

    def usage(self) -> Usage:
        usage = self.running_usage()
        usage.prompt_tokens_details = CachedTokens(
            cached_tokens=self.num_cached, created_cache_tokens=None, multimodal_tokens=None
        )
        usage.completion_tokens_details = self.details()
        return usage

    def stream_usage(self) -> Usage:
        """The counts at the end of a stream: what is unknown is left out, as in vLLM."""
        usage = self.running_usage()
        usage.prompt_tokens_details = CachedTokens(cached_tokens=self.num_cached)
        if self.num_reasoning is not None or self.speculation:
            usage.completion_tokens_details = self.details()
        return usage

    def running_usage(self) -> Usage:
        """The counts so far, for a chunk in the middle of a stream."""
        prompt, output = self.num_prompt, self.num_output
        return Usage(prompt_tokens=prompt, total_tokens=prompt + output, completion_tokens=output)

    def details(self) -> CompletionDetails | None:
        """None where neither reasoning nor draft tokens are counted."""
        counts = {} if self.num_reasoning is None else {"reasoning_tokens": self.num_reasoning}
        if self.speculation:
            accepted = sum(speculation.num_accepted for speculation in self.speculation.values())
            drafted = sum(speculation.num_drafted for speculation in self.speculation.values())
            counts["accepted_prediction_tokens"] = accepted
            counts["rejected_prediction_tokens"] = drafted - accepted
        return CompletionDetails(**counts) if counts else None
