"""The pieces of a reply between request nodes: text, reasoning and calls, and what was spoken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from pipelines.values.node_values import SpokenSound
from pipelines.values.search_values import Hit
from pipelines.values.stream_values import Deferred
from pipelines.wire.token_piece import TokenPiece


class Alternative(NamedTuple):
    """A token that could have been chosen instead."""

    token: str
    bytes: bytes
    logprob: float
    token_id: int = -1


@dataclass(frozen=True, slots=True)
class TextLogprob:
    """One token of the output as text, with its log-probability and its alternatives, best first."""

    token: str
    bytes: bytes
    token_id: int
    logprob: float
    alternatives: list[Alternative]
    rank: int = 1  # 1 for the likeliest token


TextPiece = TokenPiece[TextLogprob]
"""A piece whose log-probabilities have their tokens as text."""


class TextUpdate(msgspec.Struct):
    """A piece of one choice's text; `parts[i]` is what token i of the piece added to it.

    An end token that is no text has no part.

    `piece.stop_reason` is the stop string or stop token id that ended the choice, "repetition_detected", or
    None for an end token of the model.
    """

    piece: TextPiece
    text: str
    parts: list[str]

    def extend(self, later: TextUpdate) -> None:
        """Append the next update of the same choice, in place."""
        self.piece.extend(later.piece)
        self.text += later.text
        self.parts += later.parts


@dataclass(frozen=True, slots=True)
class ToolCallPiece:
    """A piece of one tool call: `arguments` of all its pieces, joined, are its JSON text.

    The first piece of call `index` has `id` and `name`, later ones have neither.
    """

    index: int
    arguments: str = ""
    id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage that a reply names: `number` of those in its request, at characters `start` to `end` of the
    content of its choice.
    """

    number: int
    start: int
    end: int
    passage: Hit


@dataclass(frozen=True, slots=True)
class SpokenPart:
    """The sound of a part of a reply, and what it says: a sentence of the reply's content."""

    text: str
    sound: SpokenSound


class ReplyUpdate(msgspec.Struct):
    """A piece of one choice's reply, split into reasoning, content and tool calls.

    `num_reasoning` of the piece's tokens are reasoning, None where reasoning is not parsed.  `is_reasoning`
    marks the token ids of the piece that are reasoning or one of its markers, [] where none can be.
    `citations` are those whose text ends in this piece.  `spoken` is sound of this piece's text, or of
    earlier pieces', where the reply is spoken.
    """

    piece: TextPiece
    content: str
    reasoning: str = ""
    tool_calls: list[ToolCallPiece] = []
    num_reasoning: int | None = None
    is_reasoning: list[bool] = []
    citations: list[Citation] = []
    spoken: list[SpokenPart] = []

    def extend(self, later: ReplyUpdate) -> None:
        """Append the next update of the same choice, in place."""
        self.piece.extend(later.piece)
        self.content += later.content
        self.reasoning += later.reasoning
        self.tool_calls += later.tool_calls
        if later.num_reasoning is not None:
            self.num_reasoning = (self.num_reasoning or 0) + later.num_reasoning
        self.is_reasoning += later.is_reasoning
        self.citations += later.citations
        self.spoken += later.spoken


class SpokenWord(NamedTuple):
    """A word and when it was spoken, in seconds from the beginning of the sound."""

    text: str
    start_s: float
    end_s: float


class Segment(msgspec.Struct):
    """Words that were spoken together: from `start_s` to `end_s`, in seconds from the beginning of the sound.

    `token_ids` and `logprobs` are those of its text.  `is_closed`: the model wrote the time of its end.
    `words` are there where their times were wanted.
    """

    start_s: float
    end_s: float
    text: str
    token_ids: list[int]
    logprobs: list[float]
    is_closed: bool = True
    words: list[SpokenWord] = []


class SpeechUpdate(msgspec.Struct):
    """A piece of the text of one window of sound; `segments` are those that end in it.

    `language` and `no_speech_prob` come with the first piece.  `continues_s`, in the last piece, is where the
    speech of the next window begins if not at the end of this one.  `words`, in the last piece, are those of
    each segment of the window, where the graph finds when they were spoken.
    """

    piece: TextPiece
    text: str
    segments: list[Segment] = []
    language: str | None = None
    no_speech_prob: float | None = None
    continues_s: float | None = None
    words: Deferred[list[list[SpokenWord]]] | None = None
