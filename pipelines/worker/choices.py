"""The choices of one call's reply: which of them have not ended, and what is counted of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pipelines.telemetry.request_timing import RequestTiming
from pipelines.telemetry.request_trace import CallTrace, Sampling
from pipelines.telemetry.tool_calls import ToolCallCounts
from pipelines.wire.messages import TokenUpdate
from pipelines.worker.engines.faces import RequestClient
from pipelines.worker.submissions import TokenSubmission


class Choices:
    """`open` holds the choices that have not ended.  Of a reply that comes whole each input is a choice, and
    all of them end together.
    """

    def __init__(self, client: RequestClient, trace: CallTrace) -> None:
        self.open: set[int] = set()
        self._client = client
        self._trace = trace
        self._timing: RequestTiming = trace.timing
        self._end_together = True
        self._tool_calls: ToolCallCounts | None = None

    def count_tool_calls(self, request_type: str, streams: bool) -> None:
        """Count deltas, or without `streams` choices, with and without tool calls."""
        self._tool_calls = ToolCallCounts(self._trace.model, request_type, streams)

    def begin_whole(self, num_choices: int, lengths: Sequence[int]) -> None:
        """A reply that comes whole was sent for; `lengths` are the tokens of its texts."""
        self.open = set(range(num_choices))
        if lengths:
            self._timing.read(lengths)

    def begin_stream(self, num_choices: int) -> None:
        """A reply that comes piece by piece was sent for."""
        self.open, self._end_together = set(range(num_choices)), False

    def sent(self, submission: TokenSubmission) -> None:
        """Prompts went to a generative engine."""
        params = submission.params
        self._timing.started(submission.text_lengths, submission.n, params.max_tokens)
        self._trace.generates = submission.path
        self._trace.sampling = Sampling(params.max_tokens, params.temperature, params.top_p)

    def push(self, chain: Callable[[Any], Any], update: TokenUpdate, submission: TokenSubmission) -> Any:
        """What the stages of a choice make of an update; a choice that one of them ends is aborted."""
        choice, engine_ended = update.choice, update.piece.finish is not None
        if update.piece.prefill_s is not None:
            self._timing.prefilled(choice, update.piece.prefill_s, update.piece.num_cached)
        out = chain(update)
        self._timing.tokens(choice, out.piece.num_tokens)
        if self._tool_calls is not None:
            self._tool_calls.add(choice, bool(out.tool_calls))
        if out.piece.finish is not None:
            self._ended(choice, out.piece.finish)
            if not engine_ended and submission.request_id is not None:  # a stage ended it: a stop string
                self._client.abort(submission.request_id, choice)
        return out

    def passed(self, choice: int, finish: str | None) -> None:
        """An update of a choice was handed on that another call counts; with `finish` it was the last."""
        if finish is not None and choice in self.open:
            self._ended(choice, finish)

    def stop(self, choice: int, submission: TokenSubmission) -> None:
        """Nothing more is wanted of a choice."""
        if choice in self.open and submission.request_id is not None:
            self._ended(choice, "abort")
            self._client.abort(submission.request_id, choice)

    def end(self, finish: str) -> None:
        """Nothing more comes for the choices that have not ended."""
        if not self.open:
            return
        if self._end_together:
            self._timing.completed(len(self.open), finish)
        else:
            for choice in sorted(self.open):
                self._timing.ended(choice, finish)
        self.open.clear()

    def _ended(self, choice: int, finish: str) -> None:
        self.open.discard(choice)
        self._timing.ended(choice, finish)
        if self._tool_calls is not None:
            self._tool_calls.ended(choice)
