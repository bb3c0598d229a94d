"""Changes the updates of a reply before they are serialized: hides reasoning, joins small updates.

Does not depend on JSON, events or HTTP.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, TypeVar

from pipelines.values.reply_values import ReplyUpdate, TextUpdate

Update = ReplyUpdate | TextUpdate
Batch = list[tuple[int, Any]]
Entry = TypeVar("Entry")


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
