"""Builds the content blocks of one message from its updates.  Does not depend on events or HTTP."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic_core import from_json

from pipelines.base.errors import ReplyAborted
from pipelines.values.reply_values import Citation, ReplyUpdate, ToolCallPiece
from server.apis.generation.replies.citations import url_of
from server.apis.generation.replies.reply_context import TextReplyContext
from server.apis.generation.replies.token_counter import TokenCounter
from server.apis.messages.reply_models import (
    ContentBlock,
    MessageReply,
    MessageTokensDetails,
    MessageUsage,
    PassageCitation,
    RefusalDetails,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)

ID_PREFIX = "msg_"
"""What the id of a message begins with; the rest is the id of its request."""


@dataclass(frozen=True, slots=True)
class MessageContext(TextReplyContext):
    """What is known of a message before its content, and which parts the client requested."""

    max_tokens: int = 1
    names_thinking_only: bool = False  # thinking blocks are sent without their text


@dataclass(slots=True)
class OpenBlock:
    """One content block so far; `pieces` are its text, its thinking or its arguments."""

    index: int
    kind: Literal["text", "thinking", "tool_use"]
    call: ToolCallPiece | None = None
    pieces: list[str] = field(default_factory=list)
    citations: list[PassageCitation] = field(default_factory=list)

    @property
    def signature(self) -> str:
        return hashlib.sha256("".join(self.pieces).encode()).hexdigest()

    def started(self) -> ContentBlock:
        """The block before it holds anything."""
        if self.call is not None:
            return ToolUseBlock(id=self.call.id or "", name=self.call.name or "", input={})
        return ThinkingBlock(thinking="", signature="") if self.kind == "thinking" else TextBlock(text="")

    def block(self) -> ContentBlock:
        """The block with what it holds so far."""
        block, text = self.started(), "".join(self.pieces)
        if isinstance(block, ToolUseBlock):
            return block.model_copy(update={"input": arguments(text)})
        if isinstance(block, ThinkingBlock):
            return ThinkingBlock(thinking=text, signature=self.signature)
        return TextBlock(text=text, citations=self.citations or None)


def arguments(text: str) -> dict[str, Any]:
    """Arguments as an object; of those that a limit cut off, what was whole, as clients read a stream."""
    try:
        value = from_json(text or "{}", allow_partial=True)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


BlockChange = tuple[Literal["start", "delta", "cite", "stop"], OpenBlock, str | PassageCitation]
"""A change of a block, with the text of a `delta`, or the citation of a `cite`."""


class ContentBuilder:
    """The blocks of one message in their order; only the last one grows."""

    def __init__(self, context: MessageContext) -> None:
        self.blocks: list[OpenBlock] = []
        self.finish: str | None = None
        self.stop_reason: str | int | None = None
        self._shared = context
        self._open: OpenBlock | None = None

    def add(self, update: ReplyUpdate) -> list[BlockChange]:
        """Add one update; returns its changes of the blocks, in order."""
        calls = self._shared.calls(update)
        going_on = [call for call in calls if self._goes_on(call)]
        steps = [step for call in going_on for step in self._grow(call.arguments)]
        steps += self._think(update.reasoning)
        if update.content:
            steps += self._ensure("text") + self._grow(update.content)
            steps += [step for citation in update.citations for step in self._cite(citation)]
        for call in calls:
            if call not in going_on:
                steps += [] if call.name is None else self._begin("tool_use", call)
                steps += self._grow(call.arguments) if self._goes_on(call) else []
        if update.piece.finish is not None:
            self.finish, self.stop_reason = update.piece.finish, update.piece.stop_reason
            steps += self._end()
        return steps

    def _goes_on(self, call: ToolCallPiece) -> bool:
        """Whether a piece belongs to the open tool call."""
        block = self._open
        return block is not None and block.call is not None and block.call.index == call.index

    def _think(self, text: str) -> list[BlockChange]:
        if not text or not self._shared.reasoning:
            return []
        return self._ensure("thinking") + self._grow("" if self._shared.names_thinking_only else text)

    def _ensure(self, kind: Literal["text", "thinking"]) -> list[BlockChange]:
        return [] if self._open is not None and self._open.kind == kind else self._begin(kind)

    def _begin(
        self, kind: Literal["text", "thinking", "tool_use"], call: ToolCallPiece | None = None
    ) -> list[BlockChange]:
        steps = self._end()
        self._open = block = OpenBlock(len(self.blocks), kind, call)
        self.blocks.append(block)
        return [*steps, ("start", block, "")]

    def _grow(self, text: str) -> list[BlockChange]:
        if not text or self._open is None:
            return []
        self._open.pieces.append(text)
        return [("delta", self._open, text)]

    def _cite(self, citation: Citation) -> list[BlockChange]:
        """The text names a passage; once for each text that does."""
        assert self._open is not None, "the citations of a text come with it"
        passage = citation.passage
        cited = PassageCitation(
            cited_text=passage.text,
            source=url_of(passage) or passage.document,
            title=passage.heading or None,
            search_result_index=citation.number - 1,
        )
        if cited in self._open.citations:
            return []
        self._open.citations.append(cited)
        return [("cite", self._open, cited)]

    def _end(self) -> list[BlockChange]:
        block, self._open = self._open, None
        return [] if block is None else [("stop", block, "")]

    def ended_by(self, num_output: int) -> tuple[StopReason, str | None]:
        """`stop_reason` and `stop_sequence` of a message of `num_output` tokens.

        Raises ReplyAborted: Anthropic has no reason for a message that was ended from outside.
        """
        if self.finish == "abort":
            raise ReplyAborted
        if self.finish == "length":
            is_full = num_output >= self._shared.max_tokens
            return ("max_tokens" if is_full else "model_context_window_exceeded"), None
        if self.finish == "content_filter":
            return "refusal", None
        if isinstance(self.stop_reason, str) and self.finish == "stop":
            return "stop_sequence", self.stop_reason
        return ("tool_use" if any(block.call for block in self.blocks) else "end_turn"), None

    @property
    def stop_details(self) -> RefusalDetails | None:
        return RefusalDetails() if self.finish == "content_filter" else None


def usage(counter: TokenCounter) -> MessageUsage:
    """The counts of a request in Anthropic's terms."""
    thought = counter.num_reasoning
    details = None if thought is None else MessageTokensDetails(thinking_tokens=thought)
    return MessageUsage(
        input_tokens=counter.num_prompt - counter.num_cached,
        output_tokens=counter.num_output,
        cache_read_input_tokens=counter.num_cached,
        output_tokens_details=details,
    )


def message(context: MessageContext, content: ContentBuilder, counter: TokenCounter) -> MessageReply:
    """The whole reply.  Raises ReplyAborted."""
    used = usage(counter)
    stop_reason, stop_sequence = content.ended_by(used.output_tokens)
    return MessageReply(
        id=context.id,
        model=context.model,
        content=[block.block() for block in content.blocks],
        stop_reason=stop_reason,
        stop_sequence=stop_sequence,
        stop_details=content.stop_details,
        usage=used,
    )
