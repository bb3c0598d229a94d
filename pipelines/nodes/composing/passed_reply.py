"""Replies of other models that a line of a composed graph holds or writes before they go to the client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Self

from pipelines.base.cancellation import WorkCancelled
from pipelines.nodes.interface import AskedReply
from pipelines.values.composed_values import WholeReply, joined
from pipelines.values.node_values import Tokens
from pipelines.values.reply_values import ReplyUpdate, TextLogprob, TextUpdate
from pipelines.values.stream_values import StreamChoice
from pipelines.wire.sampling_params import SamplingParams
from pipelines.wire.token_piece import PieceLogprobs, TokenPiece

Batch = list[tuple[int, Any]]
FILTERED = "content_filter"
"""Why a reply ended of which something was left out."""
ABORTED = "abort"
"""Why a reply ended that a client cancelled, or a pause ended."""
REFUSED = "content_policy_violation"
"""OpenAI's word for a request that a filter refuses."""


async def answer_of(asked: AskedReply) -> Any:
    """A reply that comes whole.  Raises BraidError, and WorkCancelled where the call was closed meanwhile."""
    value = await asked.answer()
    if value is None:
        raise WorkCancelled
    return value


class StreamedReply(AskedReply):
    """A reply that comes in pieces."""

    @property
    def streams(self) -> bool:
        return True

    async def reply(self) -> WholeReply:
        return joined([update async for batch in self.updates() for choice, update in batch if choice == 0])

    async def answer(self) -> Any:
        raise TypeError("a reply that comes in pieces has no answer")


class PassedReply(StreamedReply):
    """A stream that is another one's; a subclass says which of its updates come, and when."""

    def __init__(self, asked: AskedReply) -> None:
        self._asked = asked

    @property
    def num_choices(self) -> int:
        return self._asked.num_choices

    def choice(self, index: int) -> StreamChoice:
        return self._asked.choice(index)

    def end_choice(self, index: int) -> None:
        self._asked.end_choice(index)

    def hand_on(self) -> None:
        self._asked.hand_on()

    def updates(self) -> AsyncIterator[Batch]:
        return self._asked.updates()


class HeldReply(PassedReply):
    """A reply of which nothing was sent yet, whole; `updates` sends it."""

    def __init__(self, asked: AskedReply, batches: list[Batch]) -> None:
        super().__init__(asked)
        self._batches = batches

    @classmethod
    async def of(cls, asked: AskedReply) -> Self:
        """Read a reply to its end.  Raises BraidError."""
        return cls(asked, [batch async for batch in asked.updates()])

    @property
    def choices(self) -> list[WholeReply]:
        """The choices of the reply, each whole."""
        updates: list[list[Any]] = [[] for _ in range(self.num_choices)]
        for batch in self._batches:
            for choice, update in batch:
                updates[choice].append(update)
        return [joined(of_choice) for of_choice in updates]

    def shown(self, num_alternatives: int | None) -> HeldReply:
        """This reply for a client that asked for at most this many alternatives of each token; None: for no
        log-probabilities.
        """
        for batch in self._batches:
            for _, update in batch:
                update.piece.logprobs = _shown(update.piece.logprobs, num_alternatives)
        return self

    async def updates(self) -> AsyncIterator[Batch]:
        for batch in self._batches:
            yield batch


class FixedReply(StreamedReply):
    """A text that no model wrote, as each choice of a reply, which ends by the filter."""

    def __init__(self, text: str, num_choices: int, is_chat: bool) -> None:
        self._text = text
        self._num_choices = num_choices
        self._is_chat = is_chat

    @property
    def num_choices(self) -> int:
        return self._num_choices

    def choice(self, index: int) -> StreamChoice:
        """A choice with an empty prompt, since no model wrote it."""
        return StreamChoice(index, Tokens([]), 0, SamplingParams())

    def end_choice(self, index: int) -> None:
        """The text is whole: nothing is generated."""

    def hand_on(self) -> None:
        """No model wrote it: nothing is counted."""

    async def updates(self) -> AsyncIterator[Batch]:
        yield [(choice, filtered(self._text, self._is_chat)) for choice in range(self._num_choices)]


def _shown(found: PieceLogprobs[TextLogprob] | None, num: int | None) -> PieceLogprobs[TextLogprob] | None:
    if found is None or num is None:
        return None
    if num >= 0:
        found.tokens = [replace(token, alternatives=token.alternatives[:num]) for token in found.tokens]
    return found


def filtered(text: str, is_chat: bool, piece: TokenPiece[Any] | None = None) -> ReplyUpdate | TextUpdate:
    """The last update of a choice that the filter ends: `text` in place of what was left out.  `piece` holds
    the counts of that.
    """
    end: TokenPiece[Any] = TokenPiece([], 0) if piece is None else piece
    end.finish = FILTERED
    return ReplyUpdate(end, text) if is_chat else TextUpdate(end, text, [])
