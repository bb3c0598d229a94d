"""The content blocks of one message, as its pieces arrive.  Knows nothing of events or of HTTP."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic_core import from_json

from pipelines.values import ReplyUpdate, ToolCallPiece
from server.generation.replies.chat import ReplyContext
from server.generation.replies.token_counter import TokenCounter
from server.messages.reply import (
    ContentBlock,
    MessageReply,
    MessageUsage,
    OutputTokensDetails,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)


@dataclass(frozen=True, slots=True)
class MessageContext(ReplyContext):
    """What of a message is known before its content, and what of it its client asked to see."""

    max_tokens: int = 1
    names_thinking_only: bool = False  # that the model thought is told, not what


@dataclass(slots=True)
class OpenBlock:
    """One content block so far; `pieces` are its text, its thinking or its arguments."""

    index: int
    kind: Literal["text", "thinking", "tool_use"]
    call: ToolCallPiece | None = None
    pieces: list[str] = field(default_factory=list)

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
        return TextBlock(text=text)


def arguments(text: str) -> dict[str, Any]:
    """Arguments as an object; of those that a limit cut off, what was whole, as clients read a stream."""
    try:
        value = from_json(text or "{}", allow_partial=True)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


Step = tuple[Literal["start", "delta", "stop"], OpenBlock, str]
"""What happened to a block; the text is a delta's."""


class Content:
    """The blocks of one message in their order; only the last one grows."""

    def __init__(self, head: MessageContext) -> None:
        self.blocks: list[OpenBlock] = []
        self.finish: str | None = None
        self.stop_reason: str | int | None = None
        self._head = head
        self._open: OpenBlock | None = None

    def add(self, update: ReplyUpdate) -> list[Step]:
        """Take one piece; gives what it does to the blocks, in order."""
        calls = self._head.calls(update)
        going_on = [call for call in calls if self._goes_on(call)]
        steps = [step for call in going_on for step in self._grow(call.arguments)]
        steps += self._think(update.reasoning)
        if update.content:
            steps += self._ensure("text") + self._grow(update.content)
        for call in calls:
            if call not in going_on:
                steps += [] if call.name is None else self._begin("tool_use", call)
                steps += self._grow(call.arguments) if self._goes_on(call) else []
        if update.piece.finish is not None:
            self.finish, self.stop_reason = update.piece.finish, update.piece.stop_reason
            steps += self._end()
        return steps

    def _goes_on(self, call: ToolCallPiece) -> bool:
        """Whether a piece belongs to the call that is being written."""
        block = self._open
        return block is not None and block.call is not None and block.call.index == call.index

    def _think(self, text: str) -> list[Step]:
        if not text or not self._head.reasoning:
            return []
        return self._ensure("thinking") + self._grow("" if self._head.names_thinking_only else text)

    def _ensure(self, kind: Literal["text", "thinking"]) -> list[Step]:
        return [] if self._open is not None and self._open.kind == kind else self._begin(kind)

    def _begin(
        self, kind: Literal["text", "thinking", "tool_use"], call: ToolCallPiece | None = None
    ) -> list[Step]:
        steps = self._end()
        self._open = block = OpenBlock(len(self.blocks), kind, call)
        self.blocks.append(block)
        return [*steps, ("start", block, "")]

    def _grow(self, text: str) -> list[Step]:
        if not text or self._open is None:
            return []
        self._open.pieces.append(text)
        return [("delta", self._open, text)]

    def _end(self) -> list[Step]:
        block, self._open = self._open, None
        return [] if block is None else [("stop", block, "")]

    def ended_by(self, num_output: int) -> tuple[StopReason, str | None]:
        """`stop_reason` and `stop_sequence` of a message of so many tokens."""
        if self.finish == "length":
            whole = num_output >= self._head.max_tokens
            return ("max_tokens" if whole else "model_context_window_exceeded"), None
        if isinstance(self.stop_reason, str) and self.finish == "stop":
            return "stop_sequence", self.stop_reason
        return ("tool_use" if any(block.call for block in self.blocks) else "end_turn"), None


def usage(tally: TokenCounter) -> MessageUsage:
    """The counts of a request in Anthropic's terms."""
    thought = tally.num_reasoning
    details = None if thought is None else OutputTokensDetails(thinking_tokens=thought)
    return MessageUsage(
        input_tokens=tally.num_prompt - tally.num_cached,
        output_tokens=tally.num_output,
        cache_read_input_tokens=tally.num_cached,
        output_tokens_details=details,
    )


def message(head: MessageContext, content: Content, tally: TokenCounter) -> MessageReply:
    """The whole reply."""
    used = usage(tally)
    stop_reason, stop_sequence = content.ended_by(used.output_tokens)
    return MessageReply(
        id=head.id,
        model=head.model,
        content=[block.block() for block in content.blocks],
        stop_reason=stop_reason,
        stop_sequence=stop_sequence,
        usage=used,
    )
