"""What lines of composed graphs read of the replies of other models."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from pipelines.values.reply_values import ReplyUpdate, TextLogprob, ToolCallPiece


@dataclass(frozen=True, slots=True)
class WholeReply:
    """The reply of a generating model, whole: its first choice.

    `finish` is why it ended; `logprobs` has one entry for each token where the request asked for them.  As a
    text it is its `text`.
    """

    text: str
    reasoning: str = ""
    finish: str = "stop"
    calls: list[ToolCallPiece] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TextLogprob] = field(default_factory=list)

    def __str__(self) -> str:
        return self.text

    @property
    def data(self) -> Any:
        """The JSON that its text is.  Raises ValueError for another text."""
        return json.loads(self.text)


def joined(updates: list[Any]) -> WholeReply:
    """The updates of one choice as a reply."""
    pieces = [update.piece for update in updates]
    return WholeReply(
        text="".join(_text_of(update) for update in updates),
        reasoning="".join(getattr(update, "reasoning", "") for update in updates),
        finish=(pieces[-1].finish if pieces else None) or "abort",
        calls=[call for update in updates for call in getattr(update, "tool_calls", ())],
        token_ids=[token for piece in pieces for token in piece.token_ids],
        logprobs=[entry for piece in pieces if piece.logprobs for entry in piece.logprobs.tokens],
    )


def _text_of(update: Any) -> str:
    text: str = update.content if isinstance(update, ReplyUpdate) else update.text
    return text
