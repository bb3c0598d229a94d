"""Counts the tokens of one response."""

from __future__ import annotations

from collections.abc import Callable

from pipelines.values.reply_values import ReplyUpdate
from pipelines.worker.spent import NOTHING_SPENT, Spent
from server.apis.responses.reply_models import InputTokensDetails, OutputTokensDetails, ResponseUsage


class ResponseTokenCounter:
    """Counts input tokens (and those found in the cache) and output tokens (and those of reasoning), with
    those of the calls of other models, `others`.
    """

    def __init__(self, num_input: int, others: Callable[[], Spent] = lambda: NOTHING_SPENT) -> None:
        self._num_input = num_input
        self._others = others
        self._num_output = self._num_cached = self._num_reasoning = 0

    def add(self, update: ReplyUpdate) -> None:
        if self._num_output == 0:
            self._num_cached = update.piece.num_cached
        self._num_output += update.piece.num_tokens
        self._num_reasoning += update.num_reasoning or 0

    def usage(self) -> ResponseUsage:
        others = self._others()
        num_input, num_output = self._num_input + others.num_prompt, self._num_output + others.num_output
        return ResponseUsage(
            input_tokens=num_input,
            input_tokens_details=InputTokensDetails(cached_tokens=self._num_cached + others.num_cached),
            output_tokens=num_output,
            output_tokens_details=OutputTokensDetails(reasoning_tokens=self._num_reasoning),
            total_tokens=num_input + num_output,
        )
