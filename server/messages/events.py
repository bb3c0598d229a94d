"""Pieces of a message → the bytes of Anthropic's server-sent events.

The common event, a delta of text, is a prefix, the text as JSON and a suffix, cut from the pydantic model
once per block.  Knows nothing of HTTP or of where pieces come from.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import msgspec

from pipelines.errors import BraidError
from pipelines.values import ReplyUpdate
from server.generation.replies.token_counter import TokenCounter
from server.messages.content_builder import Content, MessageContext, OpenBlock, usage
from server.messages.errors import fault
from server.messages.reply import (
    BlockDelta,
    BlockStart,
    BlockStop,
    Delta,
    Event,
    InputJsonDelta,
    MessageDelta,
    MessageReply,
    MessageStart,
    MessageStop,
    Ping,
    SignatureDelta,
    StopDelta,
    TextDelta,
    ThinkingDelta,
)

_encode_text = msgspec.json.Encoder().encode


def event(reply: Event) -> bytes:
    """One event, named after the type of its data."""
    return f"event: {reply.type}\ndata: ".encode() + reply.to_json() + b"\n\n"


def delta(block: OpenBlock, text: str) -> Delta:
    if block.kind == "tool_use":
        return InputJsonDelta(partial_json=text)
    return ThinkingDelta(thinking=text) if block.kind == "thinking" else TextDelta(text=text)


class MessageEvents:
    """Events of one stream, in Anthropic's order."""

    def __init__(self, head: MessageContext, tally: TokenCounter) -> None:
        self.head = head
        self.tally = tally
        self._content = Content(head)
        self._cut = (b"", b"")  # a delta of the open block before and after its text

    def opening(self) -> bytes:
        message = MessageReply(
            id=self.head.id,
            model=self.head.model,
            content=[],
            stop_reason=None,
            stop_sequence=None,
            usage=usage(self.tally),
        )
        return event(MessageStart(message=message)) + event(Ping())

    def piece(self, choice: int, update: Any) -> bytes:
        """The events of one piece, b"" when there is nothing to show."""
        self.tally.add(choice, update)
        if not isinstance(update, ReplyUpdate):  # a chat graph always gives these
            raise TypeError(f"a chat graph gave {type(update).__name__}")
        return b"".join([self._step(*step) for step in self._content.add(update)])

    def ending(self) -> bytes:
        used = usage(self.tally)
        stop_reason, stop_sequence = self._content.ended_by(used.output_tokens)
        stop = StopDelta(stop_reason=stop_reason, stop_sequence=stop_sequence)
        return event(MessageDelta(delta=stop, usage=used)) + event(MessageStop())

    def failure(self, error: BraidError) -> bytes:
        return event(fault(error))

    def _step(self, what: str, block: OpenBlock, text: str) -> bytes:
        if what == "delta":
            before, after = self._cut
            return before + _encode_text(text) + after
        return self._start(block) if what == "start" else self._stop(block)

    def _start(self, block: OpenBlock) -> bytes:
        mark = uuid4().hex
        pattern = event(BlockDelta(index=block.index, delta=delta(block, mark)))
        before, after = pattern.split(_encode_text(mark))
        self._cut = before, after
        return event(BlockStart(index=block.index, content_block=block.started()))

    def _stop(self, block: OpenBlock) -> bytes:
        signed = b""
        if block.kind == "thinking":
            signature = SignatureDelta(signature=block.signature)
            signed = event(BlockDelta(index=block.index, delta=signature))
        return signed + event(BlockStop(index=block.index))
