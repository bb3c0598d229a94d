"""The times and lengths of one request, choice by choice; `deferred` writes them a few times a second."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from pipelines.telemetry import deferred
from pipelines.telemetry.metric_names import FINISHED
from pipelines.telemetry.registry import labelled
from pipelines.telemetry.request_record import SpanKind

REASONS = {"tool_calls": "stop"}
"""How a choice finished → vLLM's word for it, where that is another one."""


class RequestTiming:
    """The clock of one request, started when it is made; each choice is timed on its own."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._start_s = self._sent_s = time.monotonic()
        self._first_s: dict[int, float] = {}
        self._last_s: dict[int, float] = {}
        self._num_tokens: dict[int, int] = {}
        self._prefill_s: dict[int, float] = {}
        self._text_lengths: Sequence[int] = ()
        self._prompt_lengths: Sequence[int] = ()
        self._n = 1
        self._num_ended: dict[int, int] = {}  # choices, by the index of their prompt
        self.num_prompt_tokens = self.num_cached_tokens = 0
        self.finishes: list[str] = []  # how choices ended, in the order of their ends

    def started(self, prompt_lengths: Sequence[int], n: int, max_tokens: int) -> None:
        """The request went to its engine."""
        self._sent_s = time.monotonic()
        self._prompt_lengths, self._n = prompt_lengths, n
        self.num_prompt_tokens = sum(prompt_lengths)
        for length in prompt_lengths:
            self._observe("vllm:request_prompt_tokens", length)
        self._observe("vllm:request_params_n", n)
        self._observe("vllm:request_params_max_tokens", max_tokens)

    def read(self, text_lengths: Sequence[int]) -> None:
        """Inputs went to an engine that replies whole and needs the cores now: written when they end."""
        self._sent_s = time.monotonic()
        self._text_lengths = text_lengths
        self.num_prompt_tokens = sum(text_lengths)

    def prefilled(self, choice: int, prefill_s: float, num_cached: int) -> None:
        """The first token of a choice came `prefill_s` after the admission of its prompt.

        Of the prompt `num_cached` tokens were in the cache; it is computed once, for its first choice.
        """
        self._prefill_s[choice] = prefill_s
        prompt, later = divmod(choice, self._n)
        if not later:
            self.num_cached_tokens += num_cached
            num_computed = self._prompt_lengths[prompt] - num_cached
            self._observe("vllm:request_prefill_kv_computed_tokens", num_computed)

    def tokens(self, choice: int, num_tokens: int) -> None:
        """`num_tokens` tokens of a choice reached the worker now; 0 is nothing."""
        if num_tokens < 1:
            return
        now_s = time.monotonic()
        if choice in self._first_s:
            gap_s = (now_s - self._last_s[choice]) / num_tokens
            self._observe("vllm:inter_token_latency_seconds", gap_s)
        else:
            self._first_s[choice] = now_s
            self._observe("vllm:time_to_first_token_seconds", now_s - self._start_s)
        self._last_s[choice] = now_s
        self._num_tokens[choice] = self._num_tokens.get(choice, 0) + num_tokens

    @property
    def num_output_tokens(self) -> int:
        return sum(self._num_tokens.values())

    def phases(self, now_s: float) -> list[tuple[SpanKind, float, float]]:
        """The queue, the prefill and the decoding of what was generated, from the first prompt on: when each
        began and ended by the monotonic clock.  What has not begun is left out; `now_s` ends what has not.
        """
        if not self._first_s:
            return [("wait", self._sent_s, now_s)]
        choice = min(self._first_s, key=lambda choice_number: self._first_s[choice_number])
        first_s, last_s = self._first_s[choice], max(self._last_s.values())
        prefill_s = min(self._prefill_s.get(choice, 0.0), first_s - self._sent_s)
        return [
            ("wait", self._sent_s, first_s - prefill_s),
            ("prefill", first_s - prefill_s, first_s),
            ("decode", first_s, last_s),
        ]

    def completed(self, num_choices: int, finish: str) -> None:
        """`num_choices` choices or inputs ended together, all with `finish`."""
        self.finishes += [finish] * num_choices
        deferred.defer(partial(self._completed, num_choices, finish, time.monotonic() - self._start_s))

    def _completed(self, num_choices: int, finish: str, took_s: float) -> None:
        deferred.gain(labelled(FINISHED, self._model, REASONS.get(finish, finish)), num_choices)
        self._observe("vllm:e2e_request_latency_seconds", took_s, num_choices)
        if self._text_lengths:
            self._add_texts()

    def ended(self, choice: int, finish: str) -> None:
        """A choice ended with `finish`: "stop", "tool_calls", "length", "repetition", "abort" or "error"."""
        self.completed(1, finish)
        num_tokens = self._num_tokens.get(choice, 0)
        if num_tokens:
            self._observe("vllm:request_generation_tokens", num_tokens)
        later_tokens = num_tokens - 1
        if later_tokens > 0:
            mean_s = (self._last_s[choice] - self._first_s[choice]) / later_tokens
            self._observe("vllm:request_time_per_output_token_seconds", mean_s)
        if num_tokens and choice in self._prefill_s:
            self._phases(choice, self._prefill_s[choice])
        self._end_prompt(choice // self._n)

    def _end_prompt(self, prompt: int) -> None:
        """One more choice of a prompt ended: with the last one it is known which is the longest."""
        num_ended = self._num_ended[prompt] = self._num_ended.get(prompt, 0) + 1
        if num_ended < self._n:
            return
        choices = range(prompt * self._n, (prompt + 1) * self._n)
        if longest := max(self._num_tokens.get(choice, 0) for choice in choices):
            self._observe("vllm:request_max_num_generation_tokens", longest)

    def _phases(self, choice: int, prefill_s: float) -> None:
        """What comes before the prefill is waiting, and what comes after it decoding."""
        first_s = self._first_s[choice]
        decode_s = self._last_s[choice] - first_s
        self._observe("vllm:request_queue_time_seconds", max(0, first_s - self._sent_s - prefill_s))
        self._observe("vllm:request_prefill_time_seconds", prefill_s)
        self._observe("vllm:request_decode_time_seconds", decode_s)
        self._observe("vllm:request_inference_time_seconds", prefill_s + decode_s)

    def _add_texts(self) -> None:
        """Add the lengths of the inputs, once."""
        for length in self._text_lengths:
            self._observe("vllm:request_prompt_tokens", length)
        self._observe("vllm:request_params_n", 1, len(self._text_lengths))
        self._text_lengths = ()

    def _observe(self, name: str, value: float, times: int = 1) -> None:
        deferred.histogram(name, self._model).add(value, times)
