"""What happens to the pieces of a reply before they are written: hiding reasoning, and joining small pieces.

Knows nothing of JSON, events or HTTP.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from typing import Any, TypeVar

from pipelines.values import ReplyUpdate, TextSpeculation, TextUpdate

Update = ReplyUpdate | TextUpdate
Batch = list[tuple[int, Any]]
Entry = TypeVar("Entry")


def hide_reasoning(batch: Batch) -> None:
    """Take the reasoning's tokens out of what each piece tells about tokens; its text is hidden later."""
    for _, update in batch:
        if isinstance(update, ReplyUpdate) and any(update.thought):
            update.logprobs = outside(update.logprobs, update.thought)
            update.token_ids = outside(update.token_ids, update.thought)
            if update.speculation is not None:
                seen = outside(update.speculation.logprobs, update.thought)
                update.speculation = update.speculation._replace(logprobs=seen)
            update.thought = []


def outside(entries: list[Entry], thought: list[bool]) -> list[Entry]:
    """Of one entry per token those that are no reasoning."""
    return [entry for entry, inside in zip_longest(entries, thought[: len(entries)]) if not inside]


ADDED = ("text", "content", "reasoning", "tool_calls", "num_tokens", "logprobs", "token_ids", "thought")
FIRST = ("num_cached", "prompt_logprobs")
"""What of two pieces is added up, and what the first of them tells."""


class Joiner:
    """Joins the pieces of each choice until they hold `num_tokens` tokens.

    A choice's first piece goes at once, and what is held back leaves with the piece that ends the choice.
    """

    def __init__(self, num_tokens: int) -> None:
        self.num_tokens = num_tokens
        self._held: dict[int, Update | None] = {}

    def push(self, batch: Batch) -> Batch:
        """The pieces that are due."""
        if self.num_tokens == 1:
            return batch
        return [(choice, due) for choice, update in batch if (due := self._one(choice, update)) is not None]

    def _one(self, choice: int, update: Update) -> Update | None:
        held = self._held.get(choice)
        joined = update if held is None else join(held, update)
        due = update.finish is not None or joined.num_tokens >= self.num_tokens or choice not in self._held
        self._held[choice] = None if due else joined
        return joined if due else None


def join(first: Update, second: Update) -> Update:
    """Two pieces of one choice as one."""
    added = {name: getattr(first, name) + getattr(second, name) for name in ADDED if hasattr(first, name)}
    told = {name: getattr(first, name) for name in FIRST if getattr(first, name) is not None}
    counts = [getattr(update, "num_reasoning", None) for update in (first, second)]
    if counts != [None, None]:
        added["num_reasoning"] = sum(count or 0 for count in counts)
    return replace(second, **told, **added, speculation=_both(first, second))


def _both(first: Update, second: Update) -> TextSpeculation | None:
    """The later totals; log-probabilities stay with their tokens."""
    if second.speculation is None:
        return first.speculation
    told = [] if first.speculation is None else first.speculation.logprobs
    if second.speculation.logprobs:
        told = [*told, *[None] * (len(first.token_ids) - len(told)), *second.speculation.logprobs]
    return second.speculation._replace(logprobs=told)
