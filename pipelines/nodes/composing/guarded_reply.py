"""A reply that is judged while it grows: its text is sent only when it was judged."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from pipelines.base.cancellation import WorkCancelled
from pipelines.nodes.composing.passed_reply import Batch, PassedReply, filtered
from pipelines.nodes.interface import AskedReply
from pipelines.values.reply_values import ReplyUpdate, ToolCallPiece
from pipelines.wire.token_piece import TokenPiece

FaultOf = Callable[[str, int], Awaitable[str | None]]
"""A text of a reply so far, and how many of its characters were judged → why it is refused, or None."""


@dataclass(frozen=True, slots=True)
class LookSettings:
    """How a reply is judged: after each `every` tokens, and the last `held` tokens of a judged text wait
    for the next look.  `refusal` stands in place of what is left out.
    """

    every: int
    held: int
    refusal: str | None


@dataclass(slots=True)
class _Choice:
    """What of a choice waits, each with the number of tokens at its end."""

    text: str = ""
    num_tokens: int = 0
    num_judged: int = 0
    chars_judged: int = 0
    waiting: list[tuple[int, Any]] = field(default_factory=list)

    def add(self, update: Any) -> None:
        self.text += _shown(update)
        self.num_tokens += update.piece.num_tokens
        self.waiting.append((self.num_tokens, update))

    def released(self, up_to: int) -> list[Any]:
        """The updates of the first `up_to` tokens."""
        free = [update for end, update in self.waiting if end <= up_to]
        self.waiting = self.waiting[len(free) :]
        return free

    def withheld(self) -> TokenPiece[Any]:
        """The counts of all that waits, without its tokens."""
        first = self.waiting[0][1].piece
        num_tokens = sum(update.piece.num_tokens for _, update in self.waiting)
        return TokenPiece([], num_tokens, num_cached=first.num_cached, prefill_s=first.prefill_s)


class GuardedReply(PassedReply):
    """The updates of a reply after they were judged; a choice that is refused ends by `content_filter`."""

    def __init__(
        self, asked: AskedReply, looks: LookSettings, fault_of: FaultOf, note: Callable[[str], None]
    ) -> None:
        super().__init__(asked)
        self._looks = looks
        self._fault_of = fault_of
        self._note = note
        self._choices: dict[int, _Choice] = {}
        self._refused: set[int] = set()

    async def updates(self) -> AsyncIterator[Batch]:
        source = super().updates()
        try:
            async for batch in source:
                judged = [
                    (choice, free) for choice, update in batch for free in await self._take(choice, update)
                ]
                if judged:
                    yield judged
                if len(self._refused) == self.num_choices:
                    break
            self._note("reply refused" if self._refused else "passed")
        except WorkCancelled:
            return  # closed from outside
        finally:
            await source.aclose()  # type: ignore[attr-defined]  # ends what still generates

    async def _take(self, number: int, update: Any) -> list[Any]:
        """What may be sent once an update of a choice has come."""
        if number in self._refused:
            return []
        choice, looks = self._choices.setdefault(number, _Choice()), self._looks
        choice.add(update)
        is_last = update.piece.finish is not None
        if not is_last and choice.num_tokens - choice.num_judged < looks.every:
            return []
        choice.num_judged = choice.num_tokens
        fault = await self._fault_of(choice.text, choice.chars_judged) if choice.text else None
        choice.chars_judged = len(choice.text)
        if fault is not None:
            self._refused.add(number)
            self.end_choice(number)
            is_chat = isinstance(update, ReplyUpdate)
            return [filtered(looks.refusal or "", is_chat, choice.withheld())]
        return choice.released(choice.num_tokens if is_last else choice.num_tokens - looks.held)


def _shown(update: Any) -> str:
    """The text of an update that a client reads, reasoning, names and arguments of calls too."""
    if not isinstance(update, ReplyUpdate):
        return str(update.text)
    return update.reasoning + update.content + "".join(map(_called, update.tool_calls))


def _called(call: ToolCallPiece) -> str:
    return f" {call.name} {call.arguments}" if call.name else call.arguments
