"""Joins the updates of each choice for a reply that is sent whole, and picks the best choices.

Does not depend on HTTP or on the shape of replies.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field

import numpy as np

from pipelines.values.reply_values import (
    Citation,
    ReplyUpdate,
    TextLogprob,
    TextPiece,
    TextUpdate,
    ToolCallPiece,
)
from pipelines.wire.token_piece import PieceLogprobs, TokenPiece
from server.apis.generation.replies.logprobs import prompt_logprobs
from server.apis.generation.replies.reply_context import TextReplyContext
from server.schema.reply_models import PromptLogprobs


@dataclass(slots=True)
class ChoiceBuilder:
    """The updates of one choice so far, joined."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[ToolCallPiece] = field(default_factory=list)
    citations: list[Citation] = field(default_factory=list)
    piece: TextPiece = field(default_factory=lambda: TokenPiece([], 0))

    def add(self, update: ReplyUpdate | TextUpdate) -> None:
        self.text.append(text_of(update))
        self.piece.extend(update.piece)
        if isinstance(update, ReplyUpdate):
            self.reasoning.append(update.reasoning)
            self.calls += update.tool_calls
            self.citations += update.citations

    @property
    def finish(self) -> str:
        return self.piece.finish or "abort"

    @property
    def logprobs(self) -> PieceLogprobs[TextLogprob]:
        return self.piece.logprobs or PieceLogprobs()


def text_of(update: ReplyUpdate | TextUpdate) -> str:
    """The text of an update for a completion, whether the graph parses replies or not."""
    return update.text if isinstance(update, TextUpdate) else update.content


def best_choices(context: TextReplyContext, choices: list[ChoiceBuilder]) -> list[int]:
    """Indices of the choices to return: for each prompt those with the highest mean log-probability."""
    found: list[int] = []
    for start in range(0, len(choices), context.num_drawn):
        drawn = range(start, start + context.num_drawn)
        if context.num_returned < context.num_drawn:
            drawn = sorted(drawn, key=lambda at: -_mean_logprob(choices[at]))  # type: ignore[assignment]
        found += drawn[: context.num_returned]
    return found


def _mean_logprob(choice: ChoiceBuilder) -> float:
    values = [entry.logprob for entry in choice.logprobs.tokens]
    return sum(values) / len(values) if values else float("-inf")


def routed_experts(choice: ChoiceBuilder) -> str | None:
    """Which experts each token chose, as vLLM writes it: int32[tokens, layers, used] in NumPy's file format,
    in base64; None where the engine gave none.
    """
    chosen = choice.piece.experts
    if chosen is None:
        return None
    rows = np.frombuffer(b"".join(chosen.pieces), np.int16).reshape(-1, chosen.layers, chosen.used)
    file = io.BytesIO()
    np.save(file, rows.astype(np.int32))
    return base64.b64encode(file.getvalue()).decode()


def prompt_scores(context: TextReplyContext, choice: ChoiceBuilder) -> PromptLogprobs | None:
    """The prompt's log-probabilities, where the client requested them.

    They are set in a reply that was made: its validation would make an object for each.
    """
    if not context.prompt_logprobs:
        return None
    scores: PromptLogprobs = prompt_logprobs(choice.logprobs.prompt or [], context.token_format)
    return scores
