"""Reply models of the Responses API: OpenAI's shape with vLLM's additions; every key is always sent.

Output items are built in `output_items.py`.
"""

from __future__ import annotations

from typing import Any, Literal

from server.schema.reply_models import Reply, TracedReply

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]

RUNNING = ("queued", "in_progress")
"""A response with any other status is final."""


class InputTokensDetails(Reply):
    cached_tokens: int
    cache_write_tokens: int = 0
    input_tokens_per_turn: list[int] = []
    cached_tokens_per_turn: list[int] = []


class OutputTokensDetails(Reply):
    reasoning_tokens: int
    tool_output_tokens: int = 0
    output_tokens_per_turn: list[int] = []
    tool_output_tokens_per_turn: list[int] = []


class ResponseUsage(Reply):
    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class IncompleteDetails(Reply):
    reason: str


class ResponseError(Reply):
    code: str
    message: str


class Response(TracedReply):
    """A response in its current state."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: Status
    background: bool
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    metadata: dict[str, str]
    model: str
    output: list[dict[str, Any]] = []
    parallel_tool_calls: bool
    previous_response_id: str | None
    prompt: None = None
    prompt_cache_key: str | None
    prompt_cache_retention: str | None
    reasoning: dict[str, Any] | None
    safety_identifier: str | None
    service_tier: str = "default"
    store: bool
    temperature: float
    text: dict[str, Any]
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_logprobs: int
    top_p: float
    truncation: str
    usage: ResponseUsage | None = None
    user: str | None
    presence_penalty: float
    frequency_penalty: float
    kv_transfer_params: None = None
    ec_transfer_params: None = None
    input_messages: None = None
    output_messages: None = None

    def to_dict(self) -> dict[str, Any]:
        """The response as it is sent and stored."""
        return self.model_dump(mode="json")


class CompactedResponse(Reply):
    """What stands for a conversation: the messages of the user, and a compaction."""

    id: str
    object: Literal["response.compaction"] = "response.compaction"
    created_at: int
    output: list[dict[str, Any]]
    usage: ResponseUsage | None


class InputItemList(Reply):
    object: Literal["list"] = "list"
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class DeletedResponse(Reply):
    id: str
    object: Literal["response.deleted"] = "response.deleted"
    deleted: bool = True


class InputTokenCount(Reply):
    object: Literal["response.input_tokens"] = "response.input_tokens"
    input_tokens: int
