"""Replies as pydantic models: OpenAI's shape with vLLM's additions.

They are the truth about what leaves the server; the byte templates of `sse.py` are cut from them.  Fields
that a reply does not set are not in it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from server.version import FINGERPRINT


class Reply(BaseModel):
    """An object in a reply: no field beyond those declared, and only those that were set are sent."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    def to_json(self) -> bytes:
        return self.model_dump_json(exclude_unset=True).encode()


class CachedTokens(Reply):
    cached_tokens: int


class Usage(Reply):
    """`prompt_tokens` counts each prompt once, whatever `n`; end tokens are among `completion_tokens`."""

    prompt_tokens: int
    total_tokens: int
    completion_tokens: int
    prompt_tokens_details: CachedTokens | None = None
    completion_tokens_details: None = None


class TokenLogprob(Reply):
    """`bytes` are those of the token alone; `token` is "" when they are no whole character."""

    token: str
    logprob: float
    bytes: list[int]


class ChosenLogprob(TokenLogprob):
    top_logprobs: list[TokenLogprob]


class ChatLogprobs(Reply):
    content: list[ChosenLogprob]


class CompletionLogprobs(Reply):
    """Four lists of equal length, one entry per token; offsets count characters of the choice's text."""

    text_offset: list[int]
    token_logprobs: list[float]
    tokens: list[str]
    top_logprobs: list[dict[str, float]]


class CalledFunction(Reply):
    name: str
    arguments: str


class ToolCallReply(Reply):
    id: str
    type: Literal["function"]
    function: CalledFunction


class ToolCallDelta(ToolCallReply):
    index: int


class ReplyMessage(Reply):
    role: str
    content: str | None
    refusal: None
    annotations: None
    audio: None
    function_call: None
    tool_calls: list[ToolCallReply] = []
    reasoning: str | None
    reasoning_content: str | None


class ChatChoice(Reply):
    index: int
    message: ReplyMessage
    logprobs: ChatLogprobs | None
    finish_reason: str
    stop_reason: str | int | None
    token_ids: None = None


class ChatCompletion(Reply):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    service_tier: None
    system_fingerprint: str
    usage: Usage
    prompt_logprobs: None
    prompt_token_ids: None


class Delta(Reply):
    role: str = "assistant"
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallDelta] = []


class ChatChunkChoice(Reply):
    index: int
    delta: Delta
    logprobs: ChatLogprobs | None
    finish_reason: str | None
    stop_reason: str | int | None = None
    token_ids: None = None


class ChatChunk(Reply):
    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: Usage | None = None
    system_fingerprint: str = FINGERPRINT


class CompletionChoice(Reply):
    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: str | None
    stop_reason: str | int | None
    token_ids: None = None
    prompt_logprobs: None = None
    prompt_token_ids: None = None


class Completion(Reply):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    service_tier: None = None
    system_fingerprint: str = FINGERPRINT
    usage: Usage | None = None


class Permission(Reply):
    id: str
    object: Literal["model_permission"] = "model_permission"
    created: int
    allow_create_engine: bool = False
    allow_sampling: bool = True
    allow_logprobs: bool = True
    allow_search_indices: bool = False
    allow_view: bool = True
    allow_fine_tuning: bool = False
    organization: str = "*"
    group: None = None
    is_blocking: bool = False


class Model(Reply):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "braid"
    root: str
    parent: None = None
    max_model_len: int
    permission: list[Permission]


class ModelList(Reply):
    object: Literal["list"] = "list"
    data: list[Model]


class ErrorBody(Reply):
    message: str
    type: str
    param: str | None
    code: int


class ErrorReply(Reply):
    error: ErrorBody
