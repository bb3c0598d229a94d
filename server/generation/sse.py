"""Pieces of choices → the bytes of server-sent events.

The common chunk, text and nothing else, is a prefix, the text as JSON and a suffix; prefix and suffix are
cut from the pydantic model once per choice.  Every other chunk is written by the model itself.  Knows
nothing of HTTP or of where pieces come from.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import msgspec

from pipelines.errors import BraidError
from pipelines.values import ReplyUpdate, TextUpdate
from server.generation.counting import Tally
from server.generation.logprobs import chat_logprobs, completion_logprobs
from server.generation.replies import Head, text_of, tool_call
from server.generation.schema import (
    ChatChunk,
    ChatChunkChoice,
    Completion,
    CompletionChoice,
    Delta,
    ErrorBody,
    ErrorReply,
    Reply,
    ToolCallDelta,
)
from server.version import FINGERPRINT

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"

_encode_text = msgspec.json.Encoder().encode


def event(reply: Reply) -> bytes:
    """One event with a reply as its data."""
    return b"data: " + reply.to_json() + b"\n\n"


def error_events(error: BraidError) -> bytes:
    """A stream's last words when it cannot go on."""
    body = ErrorBody(message=error.message, type=error.kind, param=error.field, code=error.status)
    return event(ErrorReply(error=body)) + DONE


def cut(reply: Reply, mark: str) -> tuple[bytes, bytes]:
    """The event's bytes before and after the JSON text `mark`, which occurs in it once."""
    before, after = event(reply).split(_encode_text(mark))
    return before, after


class ChatChunks:
    """Events of one chat stream, in the order in which vLLM sends them."""

    def __init__(self, head: Head, tally: Tally) -> None:
        self.head = head
        self.tally = tally
        mark = uuid4().hex
        self._cut = [cut(self._content(i, mark), mark) for i in range(tally.num_choices)]

    def opening(self) -> bytes:
        """The first event of each choice says who speaks."""
        delta = Delta(role=self.head.role, content="")
        return b"".join(
            self._event(ChatChunkChoice(index=i, delta=delta, logprobs=None, finish_reason=None))
            for i in range(self.tally.num_choices)
        )

    def piece(self, choice: int, update: Any) -> bytes:
        """The event of one piece, b"" when there is nothing to show."""
        self.tally.add(choice, update)
        if not isinstance(update, ReplyUpdate):  # a chat graph always gives these
            raise TypeError(f"a chat graph gave {type(update).__name__}")
        if (
            update.finish is None
            and not update.reasoning
            and not update.tool_calls
            and not update.logprobs
            and not self.head.continuous_usage
        ):
            if not update.content:
                return b""
            before, after = self._cut[choice]
            return before + _encode_text(update.content) + after
        return self._rare(choice, update)

    def ending(self) -> bytes:
        usage = b""
        if self.head.include_usage:
            usage = event(
                ChatChunk(
                    **self._head(), choices=[], usage=self.tally.usage(), system_fingerprint=FINGERPRINT
                )
            )
        return usage + DONE

    def failure(self, error: BraidError) -> bytes:
        return error_events(error)

    def _rare(self, choice: int, update: ReplyUpdate) -> bytes:
        delta = self._delta(update)
        if update.finish is None and not delta.model_fields_set and not update.logprobs:
            return b""
        ended = {} if update.finish is None else {"stop_reason": update.stop_reason}
        return self._event(
            ChatChunkChoice(
                index=choice,
                delta=delta,
                logprobs=chat_logprobs(update.logprobs) if update.logprobs else None,
                finish_reason=update.finish,
                token_ids=None,
                **ended,
            )
        )

    def _delta(self, update: ReplyUpdate) -> Delta:
        calls = [ToolCallDelta(index=call.index, **dict(tool_call(call))) for call in self.head.calls(update)]
        said: dict[str, Any] = {}
        if update.content or calls:
            said["content"] = update.content or None
        if update.reasoning and self.head.reasoning:
            said |= {"reasoning": update.reasoning, "reasoning_content": update.reasoning}
        if calls:
            said["tool_calls"] = calls
        return Delta(**said)

    def _content(self, choice: int, text: str) -> ChatChunk:
        said = ChatChunkChoice(
            index=choice, delta=Delta(content=text), logprobs=None, finish_reason=None, token_ids=None
        )
        return ChatChunk(**self._head(), choices=[said])

    def _event(self, choice: ChatChunkChoice) -> bytes:
        chunk = ChatChunk(**self._head(), choices=[choice])
        if self.head.continuous_usage:
            chunk.usage = self.tally.running_usage()
        if choice.finish_reason is not None and not self.head.include_usage:
            chunk.system_fingerprint = FINGERPRINT
        return event(chunk)

    def _head(self) -> dict[str, Any]:
        head = self.head
        return {
            "id": head.id,
            "object": "chat.completion.chunk",
            "created": head.created,
            "model": head.model,
        }


class CompletionChunks:
    """Events of one completion stream, in the order in which vLLM sends them."""

    def __init__(self, head: Head, tally: Tally) -> None:
        self.head = head
        self.tally = tally
        self._offsets = [0] * tally.num_choices  # characters of each choice that have log-probabilities
        mark = uuid4().hex
        self._cut = [cut(self._text(i, mark), mark) for i in range(tally.num_choices)]

    def opening(self) -> bytes:
        return b""

    def piece(self, choice: int, update: ReplyUpdate | TextUpdate) -> bytes:
        """The event of one piece, b"" when there is nothing to show."""
        self.tally.add(choice, update)
        text = text_of(update)
        if update.finish is None and not update.logprobs and not self.head.continuous_usage:
            if not text:
                return b""
            before, after = self._cut[choice]
            return before + _encode_text(text) + after
        return self._rare(choice, text, update)

    def ending(self) -> bytes:
        usage = b""
        if self.head.include_usage:
            usage = event(
                Completion(
                    **self._head(), choices=[], usage=self.tally.usage(), system_fingerprint=FINGERPRINT
                )
            )
        return usage + DONE

    def failure(self, error: BraidError) -> bytes:
        return error_events(error)

    def _rare(self, choice: int, text: str, update: ReplyUpdate | TextUpdate) -> bytes:
        if update.finish is None and not update.logprobs and not text:
            return b""
        chunk = self._text(choice, text)
        chunk.choices[0].finish_reason = update.finish
        chunk.choices[0].stop_reason = update.stop_reason
        if update.logprobs:
            chunk.choices[0].logprobs = completion_logprobs(update.logprobs, self._offsets[choice])
            self._offsets[choice] += sum(len(entry.token) for entry in update.logprobs)
        if self.head.continuous_usage:
            chunk.usage = self.tally.running_usage()
        if update.finish is not None and not self.head.include_usage:
            chunk.system_fingerprint = FINGERPRINT
        return event(chunk)

    def _text(self, choice: int, text: str) -> Completion:
        said = CompletionChoice(
            index=choice,
            text=text,
            logprobs=None,
            finish_reason=None,
            stop_reason=None,
            prompt_token_ids=None,
            token_ids=None,
        )
        return Completion(**self._head(), choices=[said])

    def _head(self) -> dict[str, Any]:
        head = self.head
        return {"id": head.id, "object": "text_completion", "created": head.created, "model": head.model}
