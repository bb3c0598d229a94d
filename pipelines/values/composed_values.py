"""What lines of composed graphs read of the replies of other models."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from pipelines.values.reply_values import TextLogprob, ToolCallPiece


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
