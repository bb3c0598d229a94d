"""Replies of chat and generate: one object, or one line of JSON for each piece.

Tool calls are whole, with their arguments as an object.  Does not depend on HTTP.
"""

from __future__ import annotations

import secrets
import string
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from pipelines.base.errors import BraidError, ReplyAborted
from pipelines.values.reply_values import ReplyUpdate, TextLogprob, ToolCallPiece
from server.apis.generation.replies.chat import joined_calls
from server.apis.generation.replies.choice_builder import ChoiceBuilder, text_of
from server.apis.generation.replies.logprobs import chosen_logprobs
from server.apis.generation.replies.reply_context import TextReplyContext
from server.apis.generation.replies.token_counter import TokenCounter
from server.apis.ollama.reply_models import (
    ChatPart,
    GeneratePart,
    OllamaCall,
    OllamaFunction,
    OllamaMessage,
    OllamaPart,
)
from server.schema.plain_errors import plain_error
from server.schema.reply_models import Reply

LETTERS = string.ascii_lowercase + string.digits


def line(reply: Reply) -> bytes:
    """A reply as a line of a stream."""
    return reply.to_json() + b"\n"


def now_text() -> str:
    """The time as clients read it: RFC 3339, in UTC."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class OllamaContext(TextReplyContext):
    """`is_chat`: the text is in a message.  Times are those of a monotonic clock, in seconds."""

    is_chat: bool = True
    started_s: float = 0.0
    loaded_s: float = 0.0

    def part(self, content: str, thinking: str = "", calls: Iterable[OllamaCall] = ()) -> OllamaPart:
        """A piece of the reply."""
        common: dict[str, Any] = {"model": self.model, "created_at": now_text(), "done": False}
        others: dict[str, Any] = {"thinking": thinking} if thinking else {}
        if not self.is_chat:
            return GeneratePart(**common, response=content, **others)
        if calls:
            others["tool_calls"] = [*calls]
        return ChatPart(**common, message=OllamaMessage(role="assistant", content=content, **others))

    def end(self, part: OllamaPart, finish: str, prefill_s: float, counter: TokenCounter) -> OllamaPart:
        """The last piece of the reply, with its counts and durations.

        Raises ReplyAborted: Ollama has no reason for a reply that was ended from outside.
        """
        if finish == "abort":
            raise ReplyAborted
        ended_s = time.monotonic()
        part.done, part.done_reason = True, "length" if finish == "length" else "stop"
        part.total_duration = _nanoseconds(ended_s - self.started_s)
        part.load_duration = _nanoseconds(self.loaded_s - self.started_s)
        part.prompt_eval_count, part.eval_count = counter.num_prompt, counter.num_output
        part.prompt_eval_duration = _nanoseconds(prefill_s)
        part.eval_duration = _nanoseconds(ended_s - self.loaded_s - prefill_s)
        return part


def _nanoseconds(seconds: float) -> int:
    return max(int(seconds * 1e9), 1)


def tool_calls(pieces: Iterable[ToolCallPiece]) -> list[OllamaCall]:
    """The calls of which these are all pieces."""
    calls = enumerate(joined_calls(pieces))
    return [_call(i, call.function.name, call.function.arguments) for i, call in calls]


def _call(index: int, name: str, arguments: str) -> OllamaCall:
    try:
        given = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:  # the reply was cut off inside the call
        given = {}
    call_id = "call_" + "".join(secrets.choice(LETTERS) for _ in range(8))
    arguments_object = given if isinstance(given, dict) else {}
    return OllamaCall(id=call_id, function=OllamaFunction(index=index, name=name, arguments=arguments_object))


def whole_reply(context: OllamaContext, choice: ChoiceBuilder, counter: TokenCounter) -> OllamaPart:
    """The reply of a request that does not stream.  Raises ReplyAborted."""
    part = context.part("".join(choice.text), "".join(choice.reasoning), tool_calls(choice.calls))
    if context.logprobs:
        part.logprobs = chosen_logprobs(choice.logprobs.tokens)
    return context.end(part, choice.finish, choice.piece.prefill_s or 0.0, counter)


class OllamaLines:
    """Serializes the lines of one stream."""

    keep_alive = b""  # a client reads every line as JSON

    def __init__(self, context: OllamaContext, counter: TokenCounter) -> None:
        self._context = context
        self._counter = counter
        self._calls: list[ToolCallPiece] = []
        self._num_sent = 0  # calls
        self._prefill_s = 0.0
        self._finish = ""

    def opening(self) -> bytes:
        return b""

    def piece(self, choice: int, update: Any) -> bytes:
        """The lines of one update, b"" when it shows nothing."""
        self._counter.add(choice, update)
        self._prefill_s = self._prefill_s or update.piece.prefill_s or 0.0
        self._finish = update.piece.finish or self._finish
        reasoning, calls = "", []
        if isinstance(update, ReplyUpdate):
            reasoning, calls = update.reasoning, self._whole_calls(update)
        logprobs = update.piece.logprobs
        entries = logprobs.tokens if self._context.logprobs and logprobs is not None else []
        return self._lines(text_of(update), reasoning, calls, entries)

    def _lines(
        self, content: str, reasoning: str, calls: list[OllamaCall], entries: list[TextLogprob]
    ) -> bytes:
        parts = [self._context.part("", reasoning)] if reasoning else []
        if content or calls or (entries and not reasoning):
            parts.append(self._context.part(content, "", calls))
        if entries:
            parts[-1].logprobs = chosen_logprobs(entries)
        return b"".join(map(line, parts))

    def _whole_calls(self, update: ReplyUpdate) -> list[OllamaCall]:
        """The calls of which no piece is missing: a call ends where the next one begins, or the reply."""
        self._calls += update.tool_calls
        last = self._calls[-1].index if self._calls and update.piece.finish is None else None
        whole = tool_calls(piece for piece in self._calls if piece.index != last)
        due, self._num_sent = whole[self._num_sent :], max(self._num_sent, len(whole))
        return due

    def ending(self) -> bytes:
        part = self._context.part("")
        try:
            return line(self._context.end(part, self._finish, self._prefill_s, self._counter))
        except ReplyAborted as error:
            return self.failure(error)

    def failure(self, error: BraidError) -> bytes:
        return line(plain_error(error))
