"""Serializes the updates of a message as Anthropic's server-sent events.

The common event, a delta of text, is a prefix, the text as JSON and a suffix, made from the pydantic model
once per block.  Does not depend on HTTP.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import msgspec

from pipelines.base.errors import BraidError, ReplyAborted
from pipelines.values.reply_values import ReplyUpdate
from server.apis.generation.replies.token_counter import TokenCounter
from server.apis.messages.content_builder import (
    ID_PREFIX,
    ContentBuilder,
    MessageContext,
    OpenBlock,
    usage,
)
from server.apis.messages.reply_models import (
    BlockDelta,
    BlockStart,
    BlockStop,
    CitationsDelta,
    Delta,
    Event,
    InputJsonDelta,
    MessageDelta,
    MessageReply,
    MessageStart,
    MessageStop,
    PassageCitation,
    Ping,
    SignatureDelta,
    StopDelta,
    TextDelta,
    ThinkingDelta,
)
from server.schema.anthropic_errors import anthropic_error

_encode_text = msgspec.json.Encoder().encode


def event(reply: Event) -> bytes:
    """One event, named after the type of its data."""
    return f"event: {reply.type}\ndata: ".encode() + reply.to_json() + b"\n\n"


def delta(block: OpenBlock, text: str) -> Delta:
    if block.kind == "tool_use":
        return InputJsonDelta(partial_json=text)
    return ThinkingDelta(thinking=text) if block.kind == "thinking" else TextDelta(text=text)


class MessageEvents:
    """Serializes the events of one stream, in Anthropic's order."""

    def __init__(self, context: MessageContext, counter: TokenCounter) -> None:
        self.context = context
        self.counter = counter
        self._content = ContentBuilder(context)
        self._template = (b"", b"")  # a delta of the open block before and after its text

    def opening(self) -> bytes:
        message = MessageReply(
            id=self.context.id,
            model=self.context.model,
            content=[],
            stop_reason=None,
            stop_sequence=None,
            usage=usage(self.counter),
        )
        return event(MessageStart(message=message)) + event(Ping())

    def piece(self, choice: int, update: Any) -> bytes:
        """The events of one update, b"" when it shows nothing."""
        self.counter.add(choice, update)
        if not isinstance(update, ReplyUpdate):  # the result type of every chat graph
            raise TypeError(f"a chat graph returned {type(update).__name__}")
        return b"".join([self._step(*step) for step in self._content.add(update)])

    def ending(self) -> bytes:
        used = usage(self.counter)
        try:
            stop_reason, stop_sequence = self._content.ended_by(used.output_tokens)
        except ReplyAborted as error:
            error.request_id = self.context.id.removeprefix(ID_PREFIX)
            return self.failure(error)
        stop = StopDelta(
            stop_reason=stop_reason, stop_sequence=stop_sequence, stop_details=self._content.stop_details
        )
        trace = self.context.trace and self.context.trace()
        return event(MessageDelta(delta=stop, usage=used, trace=trace)) + event(MessageStop())

    def failure(self, error: BraidError) -> bytes:
        return event(anthropic_error(error))

    def _step(self, what: str, block: OpenBlock, new: str | PassageCitation) -> bytes:
        if isinstance(new, PassageCitation):
            return event(BlockDelta(index=block.index, delta=CitationsDelta(citation=new)))
        if what == "delta":
            before, after = self._template
            return before + _encode_text(new) + after
        return self._start(block) if what == "start" else self._stop(block)

    def _start(self, block: OpenBlock) -> bytes:
        placeholder = uuid4().hex
        pattern = event(BlockDelta(index=block.index, delta=delta(block, placeholder)))
        before, after = pattern.split(_encode_text(placeholder))
        self._template = before, after
        return event(BlockStart(index=block.index, content_block=block.started()))

    def _stop(self, block: OpenBlock) -> bytes:
        signed = b""
        if block.kind == "thinking":
            signature = SignatureDelta(signature=block.signature)
            signed = event(BlockDelta(index=block.index, delta=signature))
        return signed + event(BlockStop(index=block.index))
