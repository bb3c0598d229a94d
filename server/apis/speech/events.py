"""The events of a stream of text, for OpenAI's clients and for vLLM's at the same time.

OpenAI's read `type`, `delta` and `text` of an event, vLLM's `choices` and `usage`: no name means two things.
"""

from __future__ import annotations

import time
from typing import Any, Literal

from pipelines.base.errors import BraidError
from pipelines.nodes.speech.window_text import WindowText, joiner
from pipelines.values.reply_values import SpeechUpdate
from server.schema.reply_models import Reply, Usage
from server.schema.sse import DONE, error_events, event


class ContentDelta(Reply):
    content: str


class ChunkChoice(Reply):
    delta: ContentDelta
    finish_reason: str | None = None


class TokenUsage(Reply):
    """What a stream read and wrote, in OpenAI's names."""

    type: Literal["tokens"] = "tokens"
    input_tokens: int
    output_tokens: int
    total_tokens: int


class SpeechEvent(Reply):
    """One event.  `id` and what follows it are vLLM's, and on its paths only."""

    type: Literal["transcript.text.delta", "transcript.text.done"] | None = None
    delta: str | None = None
    text: str | None = None
    logprobs: list[None] | None = None
    id: str | None = None
    object: Literal["transcription.chunk", "translation.chunk"] | None = None
    created: int | None = None
    model: str | None = None
    choices: list[ChunkChoice] | None = None
    usage: TokenUsage | Usage | None = None


class SpeechEvents:
    """Serializes the updates of one stream.  `plain`: OpenVINO Model Server's events, without vLLM's names.

    The text of a window begins without spaces, and after a joiner where there is text before it.
    """

    def __init__(
        self,
        reply_id: str,
        kind: Literal["transcription.chunk", "translation.chunk"],
        model: str,
        plain: bool,
        include_usage: bool,
        continuous_usage: bool,
    ) -> None:
        self._shared: dict[str, Any] = {
            "id": reply_id,
            "object": kind,
            "created": int(time.time()),
            "model": model,
        }
        self._plain = plain
        self._include_usage = include_usage
        self._continuous_usage = include_usage and continuous_usage
        self._text = ""
        self._window: WindowText | None = None
        self._begins = True
        self._language = "en"
        self._num_prompt = 0
        self._num_tokens = 0

    def piece(self, window: WindowText, update: SpeechUpdate) -> bytes:
        """The event of one update, b"" when it shows nothing."""
        self._num_tokens += update.piece.num_tokens
        if window is not self._window:
            self._window, self._begins = window, True
            self._num_prompt += window.num_prompt
        self._language = window.language or self._language
        text = update.text
        if self._begins:
            text = text.lstrip()
            if text:
                self._begins = False
                text = (joiner(self._language) if self._text else "") + text
        if not text:
            return b""
        self._text += text
        return self._event(
            "transcript.text.delta",
            text,
            {"delta": text},
            finish=None,
            usage=self._usage() if self._continuous_usage else None,
        )

    def ending(self) -> bytes:
        usage = TokenUsage(
            type="tokens",
            input_tokens=self._num_prompt,
            output_tokens=self._num_tokens,
            total_tokens=self._num_prompt + self._num_tokens,
        )
        done = self._event("transcript.text.done", "", {"text": self._text}, "stop", usage)
        if self._plain:
            return done
        if self._include_usage:
            done += event(SpeechEvent(**self._shared, choices=[], usage=self._usage()))
        return done + DONE

    def failure(self, error: BraidError) -> bytes:
        return error_events(error)

    def _usage(self) -> Usage:
        return Usage(
            prompt_tokens=self._num_prompt,
            total_tokens=self._num_prompt + self._num_tokens,
            completion_tokens=self._num_tokens,
        )

    def _event(
        self,
        kind: Literal["transcript.text.delta", "transcript.text.done"],
        content: str,
        own: dict[str, Any],
        finish: str | None,
        usage: TokenUsage | Usage | None,
    ) -> bytes:
        if self._plain:
            return event(SpeechEvent(type=kind, **own, logprobs=[]))
        choice = ChunkChoice(delta=ContentDelta(content=content), finish_reason=finish)
        more: dict[str, Any] = {} if usage is None else {"usage": usage}
        return event(SpeechEvent(type=kind, **own, logprobs=[], **self._shared, choices=[choice], **more))
