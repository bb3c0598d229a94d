"""Replies of llama.cpp's own paths."""

from __future__ import annotations

from typing import Any

from server.schema.reply_models import Reply


class LlamaTimings(Reply):
    """Counts of tokens, and milliseconds."""

    cache_n: int
    prompt_n: int
    prompt_ms: float
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    predicted_per_token_ms: float
    predicted_per_second: float


class LlamaText(Reply):
    """A piece of a completion, or with `stop` the whole, or the end of a stream."""

    index: int
    content: str
    tokens: list[int]
    id_slot: int
    stop: bool
    model: str | None = None
    tokens_predicted: int
    tokens_evaluated: int
    generation_settings: dict[str, Any] | None = None
    prompt: str | None = None
    has_new_line: bool | None = None
    truncated: bool | None = None
    stop_type: str | None = None
    stopping_word: str | None = None
    tokens_cached: int | None = None
    completion_probabilities: list[dict[str, Any]] | None = None
    timings: LlamaTimings | None = None


class AppliedTemplate(Reply):
    prompt: str


class LlamaEmbedding(Reply):
    """`embedding` has one vector."""

    index: int
    embedding: list[list[float]]
