"""Streams of a composed graph's lines as replies that are read piece by piece."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from pipelines.nodes.composing.passed_reply import Batch, PassedReply, StreamedReply
from pipelines.nodes.interface import AskedReply
from pipelines.values.composed_values import WholeReply
from pipelines.values.stream_values import Stream, StreamChoice
from pipelines.worker.node_clock import NodeClock
from pipelines.worker.plain_lines import PlainLines


class StagedReply(PassedReply):
    """Another model's stream after the stages that plain lines added."""

    def __init__(self, stream: Stream[Any], clock: NodeClock) -> None:
        super().__init__(stream.source)
        self._stream = stream
        self._clock = clock

    async def updates(self) -> AsyncIterator[Batch]:
        chains: dict[int, Callable[[Any], Any]] = {}
        async for batch in super().updates():
            for choice, _ in batch:
                if choice not in chains:
                    chains[choice] = self._clock.chain(self._stream, self.choice(choice))
            yield [(choice, chains[choice](update)) for choice, update in batch]


class OwnReply(StreamedReply):
    """The stream of an engine of the graph's own."""

    def __init__(self, stream: Stream[Any], plain: PlainLines, num_choices: int) -> None:
        self._stream = stream
        self._plain = plain
        self._num_choices = num_choices

    @property
    def num_choices(self) -> int:
        return self._num_choices

    def choice(self, index: int) -> StreamChoice:
        return self._plain.choice(index)

    def end_choice(self, index: int) -> None:
        self._plain.end_choice(index)

    def hand_on(self) -> None:
        """Nothing changes: the tokens are counted where they are read."""

    def updates(self) -> AsyncIterator[Batch]:
        return self._plain.stream(self._stream)

    async def reply(self) -> WholeReply:
        return await self._plain.joined(self._stream)


def reply_of(
    stream: Stream[Any], plain: Callable[[], PlainLines], num_choices: int, clock: NodeClock
) -> AskedReply:
    """The reply that a stream is; `plain` is what runs the graph's own engines."""
    if not isinstance(stream.source, AskedReply):
        return OwnReply(stream, plain(), num_choices)
    return StagedReply(stream, clock) if stream.makers else stream.source
