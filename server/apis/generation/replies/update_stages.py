"""Prepares the updates of a reply for serialization: hides reasoning, joins small updates, and divides many
log-probabilities over turns of a worker's event loop, or has them serialized in a thread.

Does not depend on JSON or events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar

from pipelines.values.reply_values import ReplyUpdate, TextUpdate

if TYPE_CHECKING:
    from server.http.exchange import Exchange

Update = ReplyUpdate | TextUpdate
Batch = list[tuple[int, Any]]
Entry = TypeVar("Entry")
MANY_SCORES = 2000
"""The most log-probabilities that are serialized in one turn of the event loop: more delay other requests."""
SCORE_BYTES = 70
"""About how many bytes a log-probability takes in a reply."""


def hide_reasoning(batch: Batch) -> None:
    """Remove the ids and log-probabilities of reasoning tokens; the text of reasoning is hidden later."""
    for _, update in batch:
        if isinstance(update, ReplyUpdate) and any(update.is_reasoning):
            piece, is_reasoning = update.piece, update.is_reasoning
            piece.token_ids = outside(piece.token_ids, is_reasoning)
            if piece.logprobs is not None:
                piece.logprobs.tokens = outside(piece.logprobs.tokens, is_reasoning)
                piece.logprobs.drafted = outside(piece.logprobs.drafted, is_reasoning)
            update.is_reasoning = []


def outside(entries: list[Entry], is_reasoning: list[bool]) -> list[Entry]:
    """The entries, one per token, that are no reasoning."""
    return [entry for entry, inside in zip_longest(entries, is_reasoning[: len(entries)]) if not inside]


class Joiner:
    """Joins the updates of each choice until they hold `num_tokens` tokens (`stream_interval`).

    The first update of a choice is sent at once; what is held back is sent with the last.
    """

    def __init__(self, num_tokens: int) -> None:
        self.num_tokens = num_tokens
        self._held: dict[int, Update | None] = {}

    def push(self, batch: Batch) -> Batch:
        """The updates that are due."""
        if self.num_tokens == 1:
            return batch
        return [(choice, due) for choice, update in batch if (due := self._one(choice, update)) is not None]

    def _one(self, choice: int, update: Any) -> Update | None:
        held: Any = self._held.get(choice)
        if held is not None:
            held.extend(update)
            update = held
        piece = update.piece
        is_due = piece.finish is not None or piece.num_tokens >= self.num_tokens or choice not in self._held
        self._held[choice] = None if is_due else update
        return update if is_due else None


def num_scores(update: Any) -> int:
    """The log-probabilities that an update brings, those of alternatives and of the prompt included.

    Each token of a prompt has as many as its first.
    """
    logprobs = update.piece.logprobs
    if logprobs is None:
        return 0
    prompt = logprobs.prompt
    of_prompt = len(prompt) * (1 + len(prompt[0].alternatives)) if prompt else 0
    return of_prompt + sum(1 + len(entry.alternatives) for entry in logprobs.tokens)


async def written(exchange: Exchange, write: Callable[[], bytes], num: int) -> bytes:
    """The bytes that `write` gives for `num` log-probabilities; it runs in a thread where they are many."""
    if num <= MANY_SCORES:
        return write()
    return await exchange.long_work(write, num * SCORE_BYTES)


def in_turns(batch: Batch) -> Sequence[tuple[Batch, int]]:
    """The updates of each turn of the event loop, and their number of log-probabilities where it is too large
    for a turn, else 0.

    A turn has at most MANY_SCORES of them, or one update with more.  A batch with few, as most are, is not
    split.
    """
    total = 0
    for _, update in batch:
        if update.piece.logprobs is not None:
            total += num_scores(update)
    if total <= MANY_SCORES:
        return [(batch, 0)]
    return [(part, num if num > MANY_SCORES else 0) for part, num in _parts(batch)]


def joined(piece: Callable[[int, Any], bytes], updates: Batch) -> bytes:
    """The bytes that `piece` gives for each update, one after another."""
    return b"".join([piece(choice, update) for choice, update in updates])


def _parts(batch: Batch) -> Iterator[tuple[Batch, int]]:
    part: Batch = []
    total = 0
    for choice, update in batch:
        num = num_scores(update)
        if part and total + num > MANY_SCORES:
            yield part, total
            part, total = [], 0
        part.append((choice, update))
        total += num
    yield part, total
