"""Pieces of chat choices → the events of a stream, in the order in which vLLM sends them.

Knows nothing of HTTP or of where pieces come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from pipelines.errors import BraidError
from pipelines.values import ReplyUpdate, TextPiece, ToolCallPiece
from pipelines.wire.token_piece import PieceLogprobs
from server.generation.replies.chat import ReplyContext
from server.generation.replies.logprobs import chat_drafts, chat_logprobs
from server.generation.replies.schema import (
    ChatChunk,
    ChatChunkChoice,
    Delta,
    FunctionDelta,
    ToolCallDelta,
    Usage,
)
from server.generation.replies.sse import DONE, cut, encode_text, error_events, event
from server.generation.replies.token_counter import TokenCounter
from server.version import FINGERPRINT


class ChatChunks:
    """Writes the events of one chat stream."""

    def __init__(self, head: ReplyContext, tally: TokenCounter) -> None:
        self.head = head
        self.tally = tally
        self._tells_more = head.token_ids or head.continuous_usage  # with every piece
        mark = uuid4().hex
        self._cut = [cut(self._content(i, mark), mark) for i in range(tally.num_choices)]

    def opening(self) -> bytes:
        """The first event of each choice says who speaks; then comes what is echoed."""
        choices = range(self.tally.num_choices)
        opened = b"".join([self._open(i) for i in choices])
        if not self.head.echoed:
            return opened
        return opened + b"".join([self._event(_choice(i, Delta(content=self.head.echoed))) for i in choices])

    def piece(self, choice: int, update: Any) -> bytes:
        """The events of one piece, b"" when there is nothing to show."""
        self.tally.add(choice, update)
        if not isinstance(update, ReplyUpdate):  # a chat graph always gives these
            raise TypeError(f"a chat graph gave {type(update).__name__}")
        piece = update.piece
        if (
            piece.finish is None
            and not update.reasoning
            and not update.tool_calls
            and (piece.logprobs is None or not piece.logprobs.tokens)
            and not self._tells_more
        ):
            if not update.content:
                return b""
            before, after = self._cut[choice]
            return before + encode_text(update.content) + after
        return self._rare(choice, update, piece)

    def ending(self) -> bytes:
        if not self.head.include_usage:
            return DONE
        usage = self.tally.stream_usage()
        chunk = ChatChunk(**self._head(), choices=[], usage=usage, system_fingerprint=FINGERPRINT)
        return event(chunk) + DONE

    def failure(self, error: BraidError) -> bytes:
        return error_events(error)

    def _rare(self, choice: int, update: ReplyUpdate, piece: TextPiece) -> bytes:
        """One event for each delta; the last one has whatever else the update brings."""
        *others, last = [*self._deltas(update)] or [Delta()]
        found = piece.logprobs or PieceLogprobs()
        logprobs = (
            chat_logprobs(found.tokens, self.head.shown) if self.head.logprobs and found.tokens else None
        )
        token_ids = piece.token_ids if self.head.token_ids else None
        if piece.finish is None and not last.model_fields_set and not logprobs and not token_ids:
            return b""
        ended = {} if piece.finish is None else {"stop_reason": piece.stop_reason}
        final = _choice(choice, last, logprobs, piece.finish, token_ids, **ended)
        if self.head.draft_logprobs:
            final.draft_logprobs = chat_drafts(found.drafted, self.head.shown)
        return b"".join([self._event(_choice(choice, delta)) for delta in others]) + self._event(final)

    def _deltas(self, update: ReplyUpdate) -> Iterator[Delta]:
        said: dict[str, Any] = {}
        if update.content:
            said["content"] = update.content
        if update.reasoning and self.head.reasoning:
            said |= {"reasoning": update.reasoning, "reasoning_content": update.reasoning}
        if said:
            yield Delta(**said)
        for call in self.head.calls(update):
            for piece in _call_deltas(call):
                yield Delta(content=None, tool_calls=[piece])

    def _open(self, choice: int) -> bytes:
        delta = Delta(role=self.head.role, content="")
        said = ChatChunkChoice(index=choice, delta=delta, logprobs=None, finish_reason=None)
        chunk = ChatChunk(**self._head(), choices=[said], prompt_token_ids=None, prompt_text=None)
        if self.head.prompts and self.head.token_ids:
            chunk.prompt_token_ids = self.head.prompts[0].ids
        if self.head.prompts and self.head.prompt_text:
            chunk.prompt_text = self.head.prompts[0].text
        if self.head.continuous_usage:
            chunk.usage = self._usage()
        return event(chunk)

    def _content(self, choice: int, text: str) -> ChatChunk:
        return ChatChunk(**self._head(), choices=[_choice(choice, Delta(content=text))])

    def _event(self, choice: ChatChunkChoice) -> bytes:
        chunk = ChatChunk(**self._head(), choices=[choice])
        if self.head.continuous_usage:
            chunk.usage = self._usage()
        if choice.finish_reason is not None and not self.head.include_usage:
            chunk.system_fingerprint = FINGERPRINT
        return event(chunk)

    def _usage(self) -> Usage:
        usage = self.tally.running_usage()
        usage.completion_tokens_details = self.tally.details()
        return usage

    def _head(self) -> dict[str, Any]:
        head = self.head
        return {
            "id": head.id,
            "object": "chat.completion.chunk",
            "created": head.created,
            "model": head.model,
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
