"""A reply that is judged while it grows: its text is sent only when it was judged."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

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


class _HeldUpdate(NamedTuple):
    """An update that waits, and the number of tokens up to its end.  `call` is the number of the tool's call
    that it is a part of, from 1; 0 for text.  `begin` counts the updates before that call, or before this
    one.
    """

    end: int
    update: Any
    call: int
    begin: int


@dataclass(slots=True)
class _Choice:
    """The updates of a choice that wait until they are judged.  A call of a tool is given whole: where the
    rest of one is refused, a client could take its beginning for a call.
    """

    text: str = ""
    num_tokens: int = 0
    num_judged: int = 0
    chars_judged: int = 0
    waiting: list[_HeldUpdate] = field(default_factory=list)
    num_released: int = 0
    call: int = 0
    num_calls: int = 0

    def add(self, update: Any) -> None:
        shown = _shown(update)
        self.text += shown
        self.num_tokens += update.piece.num_tokens
        if shown:
            self._enter(update.tool_calls if isinstance(update, ReplyUpdate) else ())
        begin = self.num_released + len(self.waiting)
        if self.call and self.waiting and self.waiting[-1].call == self.call:
            begin = self.waiting[-1].begin
        self.waiting.append(_HeldUpdate(self.num_tokens, update, self.call, begin))

    def _enter(self, pieces: Sequence[ToolCallPiece]) -> None:
        """Note which call an update with these pieces is a part of."""
        if not pieces:
            self.call = 0
        elif pieces[0].name is not None or not self.call:
            self.num_calls += 1
            self.call = self.num_calls

    def released(self, up_to: int, is_last: bool) -> list[Any]:
        """The updates of the first `up_to` tokens, up to a call that is not whole there."""
        waiting = self.waiting
        num = bisect_right(waiting, up_to, key=lambda held: held.end)
        if num:
            last = waiting[num - 1]
            after = waiting[num].call if num < len(waiting) else 0 if is_last else self.call
            if last.call and last.call == after:
                num = last.begin - self.num_released
        released = [held.update for held in waiting[:num]]
        del waiting[:num]
        self.num_released += num
        return released

    def withheld(self) -> TokenPiece[Any]:
        """The counts of all that waits, without its tokens."""
        pieces = [held.update.piece for held in self.waiting]
        first = next((piece for piece in pieces if piece.prefill_s is not None), pieces[0])
        num_tokens = sum(piece.num_tokens for piece in pieces)
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
        for part in _parts(update):
            choice.add(part)
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
        return choice.released(choice.num_tokens - (0 if is_last else looks.held), is_last)


def _parts(update: Any) -> Iterator[Any]:
    """An update as one of each call in it, and one of its text; the last of them has its tokens."""
    if not isinstance(update, ReplyUpdate) or not update.tool_calls:
        yield update
        return
    calls = [list(pieces) for _, pieces in groupby(update.tool_calls, lambda piece: piece.index)]
    text = update.reasoning + update.content
    if calls[0][0].name is None and (text or len(calls) > 1):  # goes on before the text
        yield ReplyUpdate(TokenPiece([], 0), "", tool_calls=calls.pop(0))
    if text and calls:
        citations, update.citations = update.citations, []
        yield ReplyUpdate(TokenPiece([], 0), update.content, update.reasoning, citations=citations)
        update.content = update.reasoning = ""
    for pieces in calls[:-1]:
        yield ReplyUpdate(TokenPiece([], 0), "", tool_calls=pieces)
    update.tool_calls = calls[-1] if calls else []
    yield update


def _shown(update: Any) -> str:
    """The text of an update that a client reads, reasoning, names and arguments of calls too."""
    if not isinstance(update, ReplyUpdate):
        return str(update.text)
    return update.reasoning + update.content + "".join(map(_called, update.tool_calls))


def _called(call: ToolCallPiece) -> str:
    return f" {call.name} {call.arguments}" if call.name else call.arguments
