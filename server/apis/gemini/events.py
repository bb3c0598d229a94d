"""Serializes the updates of a reply as server-sent events, or as the elements of one JSON array."""

from __future__ import annotations

from typing import Any

from pipelines.base.errors import BraidError
from pipelines.values.reply_values import ReplyUpdate
from server.apis.gemini.errors import gemini_error
from server.apis.gemini.parts import PartsBuilder, reply
from server.apis.generation.replies.reply_context import TextReplyContext
from server.apis.generation.replies.token_counter import TokenCounter
from server.schema.reply_models import Reply


class GeminiEvents:
    """Serializes one stream as server-sent events."""

    def __init__(self, context: TextReplyContext, counter: TokenCounter) -> None:
        self.context = context
        self.counter = counter
        self._builders = [PartsBuilder(context) for _ in range(counter.num_choices)]

    def opening(self) -> bytes:
        return b""

    def piece(self, choice: int, update: Any) -> bytes:
        """The event of one update, b"" when it shows nothing."""
        self.counter.add(choice, update)
        if not isinstance(update, ReplyUpdate):  # the result type of every chat graph
            raise TypeError(f"a chat graph returned {type(update).__name__}")
        builder = self._builders[choice]
        parts = builder.add(update)
        if not parts and builder.finish is None:
            return b""
        return self._written(reply(self.context, [builder.candidate(choice, parts)], self.counter))

    def ending(self) -> bytes:
        return b""

    def failure(self, error: BraidError) -> bytes:
        return self._written(gemini_error(error)) + self.ending()

    def _written(self, element: Reply) -> bytes:
        return b"data: " + element.to_json() + b"\n\n"


class GeminiArray(GeminiEvents):
    """Serializes one stream as a JSON array."""

    def __init__(self, context: TextReplyContext, counter: TokenCounter) -> None:
        super().__init__(context, counter)
        self._is_first = True

    def opening(self) -> bytes:
        return b"["

    def ending(self) -> bytes:
        return b"]"

    def _written(self, element: Reply) -> bytes:
        comma, self._is_first = b"" if self._is_first else b",\n", False
        return comma + element.to_json()
