"""The plain lines of a composed graph: what they submit to engines of the graph's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from pipelines.values.composed_values import WholeReply, joined
from pipelines.values.stream_values import Stream
from pipelines.worker.call import Call
from pipelines.worker.spent import Spent


class PlainLines(Call):
    """Reads several streams, one after another."""

    _turn: asyncio.Lock | None = None
    _num_output = 0

    async def stream(self, stream: Stream[Any]) -> AsyncIterator[list[tuple[int, Any]]]:
        """The updates of a stream that one of the lines gives."""
        self._turn = self._turn or asyncio.Lock()
        async with self._turn:
            self.result = stream
            self.start_reading()
            async for batch in self.updates():
                yield batch

    async def joined(self, stream: Stream[Any]) -> WholeReply:
        """The first choice of a stream, whole."""
        updates = []
        async for batch in self.stream(stream):
            self._num_output += sum(update.piece.num_tokens for _, update in batch)
            updates += [update for choice, update in batch if choice == 0]
        return joined(updates)

    @property
    def spent(self) -> Spent:
        """Tokens that engines read, and those that they wrote for other lines."""
        return Spent(sum(self._submitted.text_lengths), num_output=self._num_output)

    def start_reading(self) -> None:
        """The choices of the stream are open from now on."""
        source: Any = self.result.source
        if hasattr(source, "num_choices"):  # else it begins when what it continues has come
            self._choices.begin_stream(source.num_choices)
