"""Replies as pydantic models: Gemini's shape.  Every reply, and every event of a stream, is one."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from server.schema.reply_models import Reply


class GeminiReply(Reply):
    """An object in a reply: names in camel case, and only what was set is sent."""

    model_config = ConfigDict(
        extra="forbid", alias_generator=to_camel, populate_by_name=True, protected_namespaces=()
    )

    def to_json(self) -> bytes:
        return self.model_dump_json(exclude_unset=True, by_alias=True).encode()


class CallReply(GeminiReply):
    id: str
    name: str
    args: dict[str, Any]


class PartReply(GeminiReply):
    """A text, a thought, or a call."""

    text: str | None = None
    thought: bool | None = None
    function_call: CallReply | None = None


class ContentReply(GeminiReply):
    role: Literal["model"]
    parts: list[PartReply]


FinishReason = Literal["STOP", "MAX_TOKENS", "SAFETY", "OTHER"]


class Candidate(GeminiReply):
    index: int
    content: ContentReply
    finish_reason: FinishReason | None = None


class UsageMetadata(GeminiReply):
    """`prompt_token_count` has the tokens that were reused too; candidates' tokens are without thoughts."""

    prompt_token_count: int
    cached_content_token_count: int
    candidates_token_count: int
    thoughts_token_count: int | None = None
    total_token_count: int


class GenerateContentReply(GeminiReply):
    candidates: list[Candidate]
    usage_metadata: UsageMetadata
    model_version: str
    response_id: str


class GeminiTokenCount(GeminiReply):
    total_tokens: int


class GeminiModel(GeminiReply):
    name: str
    base_model_id: str
    version: str
    display_name: str
    input_token_limit: int
    output_token_limit: int
    supported_generation_methods: list[str]


class GeminiModels(GeminiReply):
    models: list[GeminiModel]
