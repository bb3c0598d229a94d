"""Replies as pydantic models: OpenAI's shape with vLLM's additions.

Every reply is serialized from them, and the byte templates of streams too.  Fields that a reply does not set
are not sent.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, PlainSerializer

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import BraidError
from server.base.version import FINGERPRINT


class Reply(DeferredModel):
    """An object in a reply: no field beyond those declared, and only those that were set are sent."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    def to_json(self) -> bytes:
        return self.model_dump_json(exclude_unset=True).encode()


class TracedReply(Reply):
    """A reply that has the path of its request where the client asks for that (X-Braid-Trace)."""

    trace: Annotated[dict[str, Any] | None, Field(exclude_if=lambda trace: trace is None)] = None


class Success(Reply):
    success: bool


class CachedTokens(Reply):
    cached_tokens: int
    created_cache_tokens: None = None
    multimodal_tokens: None = None


class CompletionDetails(Reply):
    """`reasoning_tokens` where reasoning is looked for, the others where tokens were drafted ahead."""

    reasoning_tokens: int = 0
    accepted_prediction_tokens: int = 0
    rejected_prediction_tokens: int = 0


class Usage(Reply):
    """`prompt_tokens` counts each prompt once, whatever `n`; end tokens are among `completion_tokens`."""

    prompt_tokens: int
    total_tokens: int
    completion_tokens: int
    prompt_tokens_details: CachedTokens | None = None
    completion_tokens_details: CompletionDetails | None = None


class TokenLogprob(Reply):
    """`bytes` are those of the token alone; `token` is "" when they are no whole character."""

    token: str
    logprob: float
    bytes: list[int]


class ChosenLogprob(TokenLogprob):
    top_logprobs: list[TokenLogprob]


def _as_given(entries: Any) -> Any:
    return entries


ChosenLogprobs = Annotated[list[ChosenLogprob], PlainSerializer(_as_given)]
"""May be set, without validation, to an iterator of plain objects, which are made while they are written, and
once: a model for each takes eight times the time, and holds 600 bytes.
"""


class ChatLogprobs(Reply):
    content: ChosenLogprobs


class CompletionLogprobs(Reply):
    """Four lists of equal length, one entry per token; offsets count characters of the tokens shown.

    Of an echoed prompt the first token has no log-probability.
    """

    text_offset: list[int]
    token_logprobs: list[float | None]
    tokens: list[str]
    top_logprobs: list[dict[str, float] | None]


class PromptLogprob(Reply):
    logprob: float
    rank: int
    decoded_token: str


PromptLogprobs = Annotated[list[dict[str, PromptLogprob] | None], PlainSerializer(_as_given)]
"""One entry per token of a prompt, by token id, null for the first.  May be set as `ChosenLogprobs` may."""


class CalledFunction(Reply):
    name: str
    arguments: str


class ToolCallReply(Reply):
    id: str
    type: Literal["function"]
    function: CalledFunction


class FunctionDelta(Reply):
    name: str | None = None
    arguments: str | None = None


class ToolCallDelta(Reply):
    """A call's first delta has `id`, `type` and the name, later ones have pieces of its arguments."""

    id: str | None = None
    type: Literal["function"] | None = None
    index: int
    function: FunctionDelta


class UrlCitation(Reply):
    """Characters `start_index` to `end_index` of the content name the page."""

    url: str
    title: str
    start_index: int
    end_index: int


class FileCitation(Reply):
    """Characters `start_index` to `end_index` of the content name the passage `index` of those shown."""

    file_id: str
    filename: str
    index: int
    start_index: int
    end_index: int


class Annotation(Reply):
    type: Literal["url_citation", "file_citation"]
    url_citation: UrlCitation | None = None
    file_citation: FileCitation | None = None


class CitedPassage(Reply):
    """A passage that the reply names by its number: the text at the character `start` of the document."""

    number: int
    document: str
    heading: str
    text: str
    start: int
    score: float
    url: str | None


class ReplyMessage(Reply):
    role: str
    content: str | None
    refusal: None
    annotations: list[Annotation] | None
    audio: None
    function_call: CalledFunction | None
    tool_calls: list[ToolCallReply] = []
    reasoning: str | None
    reasoning_content: str | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None


class ChatChoice(Reply):
    index: int
    message: ReplyMessage
    logprobs: ChatLogprobs | None
    finish_reason: str
    stop_reason: str | int | None
    token_ids: list[int] | None
    routed_experts: str | None
    draft_logprobs: ChatLogprobs | None = None


class ChatCompletion(TracedReply):
    """The fields after `usage` are vLLM's; those about several machines are always null."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    service_tier: None
    system_fingerprint: str
    usage: Usage
    prompt_logprobs: PromptLogprobs | None
    prompt_token_ids: list[int] | None
    prompt_text: str | None
    kv_transfer_params: None
    ec_transfer_params: None
    metrics: None
    citations: list[CitedPassage] | None = None


class Delta(Reply):
    role: str = "assistant"
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallDelta] = []
    function_call: FunctionDelta | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    annotations: list[Annotation] | None = None


class ChatChunkChoice(Reply):
    index: int
    delta: Delta
    logprobs: ChatLogprobs | None
    finish_reason: str | None
    stop_reason: str | int | None = None
    token_ids: list[int] | None = None
    draft_logprobs: ChatLogprobs | None = None


class ChatChunk(TracedReply):
    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChunkChoice]
    usage: Usage | None = None
    system_fingerprint: str = FINGERPRINT
    prompt_token_ids: list[int] | None = None
    prompt_text: str | None = None


class CompletionChoice(Reply):
    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: str | None
    stop_reason: str | int | None
    token_ids: list[int] | None = None
    prompt_logprobs: PromptLogprobs | None = None
    prompt_token_ids: list[int] | None = None
    routed_experts: str | None = None
    draft_logprobs: CompletionLogprobs | None = None


class Completion(TracedReply):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    service_tier: None = None
    system_fingerprint: str = FINGERPRINT
    usage: Usage | None = None
    kv_transfer_params: None = None
    ec_transfer_params: None = None
    metrics: None = None


class ErrorBody(Reply):
    message: str
    type: str
    param: str | None
    code: int | str | None


class ErrorReply(Reply):
    error: ErrorBody


def envelope(error: BraidError) -> ErrorReply:
    body = ErrorBody(message=error.message, type=error.kind, param=error.field, code=error.code)
    return ErrorReply(error=body)


class PlainError(Reply):
    """OpenVINO Model Server's shape."""

    error: str
