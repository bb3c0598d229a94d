"""A reply that is spoken while it is written: its text goes on at once, its sentences follow as sound."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import numpy as np

from pipelines.base.cancellation import WorkCancelled
from pipelines.base.errors import RequestError
from pipelines.nodes.composing.growing_sentences import GrowingSentences, spoken
from pipelines.nodes.composing.passed_reply import Batch, PassedReply
from pipelines.nodes.interface import AskedReply
from pipelines.values.node_values import SpokenSound
from pipelines.values.reply_values import ReplyUpdate, SpokenPart
from pipelines.wire.token_piece import TokenPiece

UNREAD = 4
"""Batches of updates that wait for the client, a sentence's sound each at most; then no more is made."""
AT_ONCE = ("abort", "error")
"""Why a reply ended of which nothing more is spoken."""

Say = Callable[[str], Awaitable[AskedReply]]
"""Asks a voice to speak a text."""


class SpokenReply(PassedReply):
    """Each choice ends once its last sentence was spoken."""

    def __init__(self, asked: AskedReply, say: Say, longest: int) -> None:
        """`longest` is how many characters are spoken at once."""
        super().__init__(asked)
        self._say = say
        self._longest = longest

    async def updates(self) -> AsyncIterator[Batch]:
        speech = SpokenSentences(super().updates(), self._say, self._longest)
        try:
            while (batch := await speech.made.get()) is not None:
                if isinstance(batch, WorkCancelled):
                    return  # the call was closed
                if isinstance(batch, Exception):
                    raise batch
                yield batch
            if speech.ends:
                yield [(choice, ReplyUpdate(end, "")) for choice, end in speech.ends.items()]
        finally:
            speech.close()


class SpokenSentences:
    """Two tasks: one reads a reply and passes its text on, the other has its sentences spoken in turn.

    `made` holds updates for the client, an error, or None at the end; `ends` the last pieces of choices.
    """

    def __init__(self, updates: AsyncIterator[Batch], say: Say, longest: int) -> None:
        self.made: asyncio.Queue[Batch | Exception | None] = asyncio.Queue(UNREAD)
        self.ends: dict[int, TokenPiece[Any]] = {}
        self._updates = updates
        self._say = say
        self._longest = longest
        self._to_say: asyncio.Queue[tuple[int, str] | None] = asyncio.Queue()  # as much as the reply's text
        self._texts: dict[int, GrowingSentences] = {}
        self._tasks = [asyncio.create_task(self._telling(work)) for work in (self._read, self._speak)]

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _telling(self, work: Callable[[], Awaitable[None]]) -> None:
        """An error of the work is for who reads `made`."""
        try:
            await work()
        except Exception as error:
            await self.made.put(error)

    async def _read(self) -> None:
        try:
            async for batch in self._updates:
                for choice, update in batch:
                    self._take(choice, update)
                await self.made.put(batch)
        finally:
            self._to_say.put_nowait(None)

    def _take(self, choice: int, update: ReplyUpdate) -> None:
        """Note what an update says, and hold its end back."""
        text = self._texts.setdefault(choice, GrowingSentences(self._longest))
        parts, piece = text.push(update.content), update.piece
        if piece.finish is not None:
            self.ends[choice] = TokenPiece([], 0, piece.finish, piece.stop_reason)
            parts += [] if piece.finish in AT_ONCE else text.rest()
            piece.finish = piece.stop_reason = None
        for part in parts:
            self._to_say.put_nowait((choice, part))

    async def _speak(self) -> None:
        silent: dict[int, str] = {}  # text before the next part, which is not spoken
        while (part := await self._to_say.get()) is not None:
            choice, text = part
            text = silent.pop(choice, "") + text
            sound = await self._sound(spoken(text))
            if sound is None:
                silent[choice] = text
                continue
            update = ReplyUpdate(TokenPiece([], 0), "", spoken=[SpokenPart(text, sound)])
            await self.made.put([(choice, update)])
        await self.made.put(None)

    async def _sound(self, text: str) -> SpokenSound | None:
        """The sound of a text; None where nothing of it is spoken."""
        parts: list[SpokenSound] = []
        if text:
            with suppress(NothingSpoken):
                reply = await self._asked(text)
                parts = [sound async for sound in reply.parts()]
        if not parts:
            return None
        return SpokenSound(np.concatenate([sound.samples for sound in parts]), parts[0].rate)

    async def _asked(self, text: str) -> AskedReply:
        try:
            return await self._say(text)
        except RequestError as error:
            if error.field == "input":  # the voice finds nothing to speak in it
                raise NothingSpoken from None
            raise


class NothingSpoken(Exception):
    """A voice speaks nothing of a text."""
