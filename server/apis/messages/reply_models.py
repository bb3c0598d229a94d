"""Replies and events as pydantic models: Anthropic's shape.

Every reply is serialized from them, and the byte templates of `events.py` too.
"""

from __future__ import annotations

from typing import Any, Literal

from server.schema.anthropic_errors import AllFieldsReply, AnthropicErrorReply
from server.schema.reply_models import TracedReply


class PassageCitation(AllFieldsReply):
    """A passage that the text names: the `search_result_index`-th of those that the model was shown."""

    type: Literal["search_result_location"] = "search_result_location"
    cited_text: str
    source: str
    title: str | None
    search_result_index: int
    start_block_index: int = 0
    end_block_index: int = 1


class TextBlock(AllFieldsReply):
    type: Literal["text"] = "text"
    text: str
    citations: list[PassageCitation] | None = None


class ThinkingBlock(AllFieldsReply):
    """`signature` is a digest of the thinking; it is not verified, but clients drop blocks without one."""

    type: Literal["thinking"] = "thinking"
    thinking: str
    signature: str


class DirectCaller(AllFieldsReply):
    """The model itself calls a tool, no code that a server runs."""

    type: Literal["direct"] = "direct"


class ToolUseBlock(AllFieldsReply):
    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: dict[str, Any]
    caller: DirectCaller = DirectCaller()


ContentBlock = TextBlock | ThinkingBlock | ToolUseBlock


class MessageTokensDetails(AllFieldsReply):
    thinking_tokens: int


class MessageUsage(AllFieldsReply):
    """`input_tokens` are those of the prompt that were computed; `cache_read_input_tokens` the others.

    Nothing is stored by name, no tool runs on the server, and it has no places: what says so of Anthropic's
    is null.
    """

    input_tokens: int
    output_tokens: int
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int
    output_tokens_details: MessageTokensDetails | None = None
    cache_creation: None = None
    server_tool_use: None = None
    inference_geo: None = None
    service_tier: Literal["standard"] = "standard"


class RefusalDetails(AllFieldsReply):
    """What is said of a refusal beside its text."""

    type: Literal["refusal"] = "refusal"
    category: None = None
    explanation: None = None


StopReason = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded", "refusal"
]


class MessageReply(AllFieldsReply, TracedReply):
    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[ContentBlock]
    stop_reason: StopReason | None
    stop_sequence: str | None
    stop_details: RefusalDetails | None = None
    container: None = None
    usage: MessageUsage


class ContextManagement(AllFieldsReply):
    original_input_tokens: int


class TokenCount(AllFieldsReply):
    """`context_management` as in vLLM: nothing was removed."""

    input_tokens: int
    context_management: ContextManagement


class MessageStart(AllFieldsReply):
    type: Literal["message_start"] = "message_start"
    message: MessageReply


class Ping(AllFieldsReply):
    type: Literal["ping"] = "ping"


class BlockStart(AllFieldsReply):
    type: Literal["content_block_start"] = "content_block_start"
    index: int
    content_block: ContentBlock


class TextDelta(AllFieldsReply):
    type: Literal["text_delta"] = "text_delta"
    text: str


class ThinkingDelta(AllFieldsReply):
    type: Literal["thinking_delta"] = "thinking_delta"
    thinking: str


class SignatureDelta(AllFieldsReply):
    type: Literal["signature_delta"] = "signature_delta"
    signature: str


class InputJsonDelta(AllFieldsReply):
    type: Literal["input_json_delta"] = "input_json_delta"
    partial_json: str


class CitationsDelta(AllFieldsReply):
    type: Literal["citations_delta"] = "citations_delta"
    citation: PassageCitation


Delta = TextDelta | ThinkingDelta | SignatureDelta | InputJsonDelta | CitationsDelta


class BlockDelta(AllFieldsReply):
    type: Literal["content_block_delta"] = "content_block_delta"
    index: int
    delta: Delta


class BlockStop(AllFieldsReply):
    type: Literal["content_block_stop"] = "content_block_stop"
    index: int


class StopDelta(AllFieldsReply):
    stop_reason: StopReason
    stop_sequence: str | None
    stop_details: RefusalDetails | None = None
    container: None = None


class MessageDelta(AllFieldsReply, TracedReply):
    type: Literal["message_delta"] = "message_delta"
    delta: StopDelta
    usage: MessageUsage


class MessageStop(AllFieldsReply):
    type: Literal["message_stop"] = "message_stop"


Event = (
    MessageStart
    | Ping
    | BlockStart
    | BlockDelta
    | BlockStop
    | MessageDelta
    | MessageStop
    | AnthropicErrorReply
)
