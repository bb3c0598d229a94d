"""A call of another model that was made for a line of a composed graph."""

from __future__ import annotations

from collections.abc import AsyncIterator
from time import monotonic
from typing import Any

from pipelines.nodes.interface import AskedReply
from pipelines.telemetry.speech import count_speech
from pipelines.values.composed_values import WholeReply, joined
from pipelines.values.reply_values import ReplyUpdate
from pipelines.values.stream_values import Series, StreamChoice
from pipelines.values.tasks import CitedInput
from pipelines.worker.call import Call
from pipelines.worker.citation_finder import CitationFinder
from pipelines.worker.named_errors import NamedErrors
from pipelines.worker.spent import Spent


class AskedCall(AskedReply):
    """One call for a line; belongs to the event loop.  What it spent stays known when it is closed."""

    def __init__(self, line: str, call: Call, streams: bool) -> None:
        self.line = line
        self.model = call.model
        self._call = call
        self._streams = streams
        self._speaks = isinstance(call.result, Series)
        self._is_handed_on = False
        self._num_output = self._num_cached = 0
        self._citing: dict[int, CitationFinder] = {}
        self.from_s, self.to_s = monotonic(), 0.0  # 0 while it runs

    @property
    def streams(self) -> bool:
        return self._streams

    @property
    def num_choices(self) -> int:
        return self._call.num_choices

    @property
    def spent(self) -> Spent:
        """All that it took so far, with what its own calls of other models took."""
        own = Spent(self._num_prompt, self._num_cached, self._num_output)
        return own.plus(self._call.others)

    @property
    def counted_here(self) -> Spent:
        """What of it no other counts: of a reply that goes to the client the prompt alone."""
        if not self._is_handed_on:
            return self.spent
        return Spent(self._num_prompt).plus(self._call.others)

    @property
    def _num_prompt(self) -> int:
        """Tokens of its prompts; what a voice reads is no token of a text."""
        return 0 if self._speaks else sum(self._call.prompt_lengths)

    def hand_on(self) -> None:
        self._is_handed_on = True

    def choice(self, index: int) -> StreamChoice:
        return self._call.choice(index)

    def end_choice(self, index: int) -> None:
        self._call.end_choice(index)

    async def updates(self) -> AsyncIterator[list[tuple[int, Any]]]:
        try:
            with NamedErrors("model", self.model):
                async for batch in self._call.updates():
                    for choice, update in batch:
                        self._num_output += update.piece.num_tokens
                        if update.piece.prefill_s is not None:
                            self._num_cached += update.piece.num_cached
                        self._cite(choice, update)
                    yield batch
        finally:
            self.close()

    def count_tool_calls(self, request_type: str, streams: bool) -> None:
        """Count the tool calls of a reply that goes to the client."""
        if self._is_handed_on:
            self._call.count_tool_calls(request_type, streams)

    async def reply(self) -> WholeReply:
        updates = [update async for batch in self.updates() for choice, update in batch if choice == 0]
        return joined(updates)

    def _cite(self, choice: int, update: Any) -> None:
        """Add the passages that a choice of the reply names."""
        request = self._call.request
        if isinstance(request, CitedInput) and isinstance(update, ReplyUpdate):
            finder = self._citing.setdefault(choice, CitationFinder(request.passages))
            update.citations = finder.push(update.content)

    async def answer(self) -> Any:
        try:
            with NamedErrors("model", self.model):
                return await self._call.answer()
        finally:
            self.close()

    async def parts(self) -> AsyncIterator[Any]:
        seconds = 0.0
        try:
            with NamedErrors("model", self.model):
                async for sound in self._call.parts():
                    seconds += len(sound.samples) / sound.rate
                    yield sound
            count_speech(self.model, seconds, monotonic() - self.from_s)
        finally:
            self.close()

    def close(self) -> None:
        """End what has not ended."""
        self.to_s = self.to_s or monotonic()
        self._call.close()
