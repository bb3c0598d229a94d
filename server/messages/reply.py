"""Replies and events as pydantic models: Anthropic's shape.

They are the truth about what leaves the server; the byte templates of `events.py` are cut from them.
"""

from __future__ import annotations

from typing import Any, Literal

from server.generation.replies.schema import Reply


class Whole(Reply):
    """An object in a reply; fields that are not set are sent too, as null or with their constant."""

    def to_json(self) -> bytes:
        return self.model_dump_json().encode()


class TextBlock(Whole):
    type: Literal["text"] = "text"
    text: str
    citations: None = None


class ThinkingBlock(Whole):
    """`signature` is a digest of the thinking; nobody checks it, but clients drop blocks without one."""

    type: Literal["thinking"] = "thinking"
    thinking: str
    signature: str


class ToolUseBlock(Whole):
    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: dict[str, Any]


ContentBlock = TextBlock | ThinkingBlock | ToolUseBlock


class OutputTokensDetails(Whole):
    thinking_tokens: int


class MessageUsage(Whole):
    """`input_tokens` are those of the prompt that were computed; `cache_read_input_tokens` the others."""

    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int
    output_tokens_details: OutputTokensDetails | None = None


StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"]


class MessageReply(Whole):
    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[ContentBlock]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: MessageUsage


class ContextManagement(Whole):
    original_input_tokens: int


class TokenCount(Whole):
    """`context_management` as vLLM gives it: nothing was cut off."""

    input_tokens: int
    context_management: ContextManagement


class MessageStart(Whole):
    type: Literal["message_start"] = "message_start"
    message: MessageReply


class Ping(Whole):
    type: Literal["ping"] = "ping"


class BlockStart(Whole):
    type: Literal["content_block_start"] = "content_block_start"
    index: int
    content_block: ContentBlock


class TextDelta(Whole):
    type: Literal["text_delta"] = "text_delta"
    text: str


class ThinkingDelta(Whole):
    type: Literal["thinking_delta"] = "thinking_delta"
    thinking: str


class SignatureDelta(Whole):
    type: Literal["signature_delta"] = "signature_delta"
    signature: str


class InputJsonDelta(Whole):
    type: Literal["input_json_delta"] = "input_json_delta"
    partial_json: str


Delta = TextDelta | ThinkingDelta | SignatureDelta | InputJsonDelta


class BlockDelta(Whole):
    type: Literal["content_block_delta"] = "content_block_delta"
    index: int
    delta: Delta


class BlockStop(Whole):
    type: Literal["content_block_stop"] = "content_block_stop"
    index: int


class StopDelta(Whole):
    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(Whole):
    type: Literal["message_delta"] = "message_delta"
    delta: StopDelta
    usage: MessageUsage


class MessageStop(Whole):
    type: Literal["message_stop"] = "message_stop"


class Fault(Whole):
    type: str
    message: str


class FaultReply(Whole):
    type: Literal["error"] = "error"
    error: Fault


Event = MessageStart | Ping | BlockStart | BlockDelta | BlockStop | MessageDelta | MessageStop | FaultReply
