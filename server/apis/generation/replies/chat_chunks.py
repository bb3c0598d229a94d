"""Serializes the updates of chat choices as the events of a stream, in vLLM's order.

Does not depend on HTTP.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from pipelines.base.errors import BraidError
from pipelines.values.reply_values import ReplyUpdate, TextPiece, ToolCallPiece
from pipelines.wire.token_piece import PieceLogprobs
from server.apis.generation.replies.citations import annotations_of
from server.apis.generation.replies.logprobs import chat_drafts, chat_logprobs
from server.apis.generation.replies.reply_context import TextReplyContext
from server.apis.generation.replies.token_counter import TokenCounter
from server.base.version import FINGERPRINT
from server.schema.reply_models import (
    ChatChunk,
    ChatChunkChoice,
    Delta,
    FunctionDelta,
    ToolCallDelta,
    Usage,
)
from server.schema.sse import DONE, encode_text, error_events, event, template


class ChatChunks:
    """Serializes the events of one chat stream; the common event, text alone, from a byte template."""

    def __init__(self, context: TextReplyContext, counter: TokenCounter) -> None:
        self.context = context
        self.counter = counter
        self._has_extra_fields = context.token_ids or context.continuous_usage
        placeholder = uuid4().hex
        self._templates = [
            template(self._content(i, placeholder), placeholder) for i in range(counter.num_choices)
        ]

    def opening(self) -> bytes:
        """The first event of each choice has the role; the echoed text follows."""
        choices = range(self.counter.num_choices)
        opened = b"".join([self._open(i) for i in choices])
        if not self.context.echoed:
            return opened
        return opened + b"".join(
            [self._event(_choice(i, Delta(content=self.context.echoed))) for i in choices]
        )

    def piece(self, choice: int, update: Any) -> bytes:
        """The events of one update, b"" when it shows nothing."""
        self.counter.add(choice, update)
        if not isinstance(update, ReplyUpdate):  # the result type of every chat graph
            raise TypeError(f"a chat graph returned {type(update).__name__}")
        piece = update.piece
        if (
            piece.finish is None
            and not update.reasoning
            and not update.tool_calls
            and not update.citations
            and (piece.logprobs is None or not piece.logprobs.tokens)
            and not self._has_extra_fields
        ):
            if not update.content:
                return b""
            before, after = self._templates[choice]
            return before + encode_text(update.content) + after
        return self._any_events(choice, update, piece)

    def ending(self) -> bytes:
        if self.context.trace is None:
            return self._usage_event() + DONE
        chunk = ChatChunk(**self._shared(), choices=[], trace=self.context.trace())
        return event(chunk) + self._usage_event() + DONE

    def _usage_event(self) -> bytes:
        if not self.context.include_usage:
            return b""
        usage = self.counter.stream_usage()
        chunk = ChatChunk(**self._shared(), choices=[], usage=usage, system_fingerprint=FINGERPRINT)
        return event(chunk)

    def failure(self, error: BraidError) -> bytes:
        return error_events(error)

    def _any_events(self, choice: int, update: ReplyUpdate, piece: TextPiece) -> bytes:
        """One event for each delta; the last one has whatever else the update brings."""
        *others, last = [*self._deltas(update)] or [Delta()]
        piece_logprobs = piece.logprobs or PieceLogprobs()
        logprobs = (
            chat_logprobs(piece_logprobs.tokens, self.context.token_format)
            if self.context.logprobs and piece_logprobs.tokens
            else None
        )
        token_ids = piece.token_ids if self.context.token_ids else None
        if piece.finish is None and not last.model_fields_set and not logprobs and not token_ids:
            return b""
        if token_ids is not None:
            last.completion_token_ids = token_ids
        ended = {} if piece.finish is None else {"stop_reason": piece.stop_reason}
        finish = None if piece.finish is None else self.context.finish(piece.finish)
        final = _choice(choice, last, logprobs, finish, token_ids, **ended)
        if self.context.draft_logprobs:
            final.draft_logprobs = chat_drafts(piece_logprobs.drafted, self.context.token_format)
        return b"".join([self._event(_choice(choice, delta)) for delta in others]) + self._event(final)

    def _deltas(self, update: ReplyUpdate) -> Iterator[Delta]:
        fields: dict[str, Any] = {}
        if update.content:
            fields["content"] = update.content
        if update.reasoning and self.context.reasoning:
            fields |= {"reasoning": update.reasoning, "reasoning_content": update.reasoning}
        if update.citations:
            fields["annotations"] = annotations_of(update.citations)
        if fields:
            yield Delta(**fields)
        for call in self.context.calls(update):
            for piece in _call_deltas(call):
                if self.context.calls_functions:
                    yield Delta(content=None, function_call=piece.function)
                else:
                    yield Delta(content=None, tool_calls=[piece])

    def _open(self, choice: int) -> bytes:
        delta = Delta(role=self.context.role, content="")
        opened = ChatChunkChoice(index=choice, delta=delta, logprobs=None, finish_reason=None)
        chunk = ChatChunk(**self._shared(), choices=[opened], prompt_token_ids=None, prompt_text=None)
        if self.context.prompts and self.context.token_ids:
            chunk.prompt_token_ids = delta.prompt_token_ids = self.context.prompts[0].ids
        if self.context.prompts and self.context.prompt_text:
            chunk.prompt_text = self.context.prompts[0].text
        if self.context.continuous_usage:
            chunk.usage = self._usage()
        return event(chunk)

    def _content(self, choice: int, text: str) -> ChatChunk:
        return ChatChunk(**self._shared(), choices=[_choice(choice, Delta(content=text))])

    def _event(self, choice: ChatChunkChoice) -> bytes:
        chunk = ChatChunk(**self._shared(), choices=[choice])
        if self.context.continuous_usage:
            chunk.usage = self._usage()
        if choice.finish_reason is not None and not self.context.include_usage:
            chunk.system_fingerprint = FINGERPRINT
        return event(chunk)

    def _usage(self) -> Usage:
        usage = self.counter.running_usage()
        usage.completion_tokens_details = self.counter.details()
        return usage

    def _shared(self) -> dict[str, Any]:
        context = self.context
        return {
            "id": context.id,
            "object": "chat.completion.chunk",
            "created": context.created,
            "model": context.model,
        }


def _choice(
    index: int,
    delta: Delta,
    logprobs: Any = None,
    finish: str | None = None,
    token_ids: list[int] | None = None,
    **ended: Any,
) -> ChatChunkChoice:
    return ChatChunkChoice(
        index=index, delta=delta, logprobs=logprobs, finish_reason=finish, token_ids=token_ids, **ended
    )


def _call_deltas(call: ToolCallPiece) -> Iterator[ToolCallDelta]:
    """The name comes alone, as clients that add up deltas expect; arguments follow."""
    if call.name is not None:
        function = FunctionDelta(name=call.name)
        yield ToolCallDelta(id=call.id, type="function", index=call.index, function=function)
    if call.arguments:
        yield ToolCallDelta(index=call.index, function=FunctionDelta(arguments=call.arguments))
