"""Arguments of calls from Python → the request models that HTTP's bodies are read with.

Every function raises RequestError with the texts that HTTP has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pipelines.local.options import (
    ChatOptions,
    ClassificationOptions,
    CompletionOptions,
    EmbeddingOptions,
    EntityOptions,
    RankingOptions,
    SearchOptions,
    TranscriptionOptions,
)
from pipelines.requests.fields.unknown_fields import unknown_field
from pipelines.requests.fields.validation import from_validation
from pipelines.requests.generation.chat import ChatRequest
from pipelines.requests.generation.completion import CompletionRequest
from pipelines.requests.pooling.classification import ClassificationRequest
from pipelines.requests.pooling.embedding import EmbeddingRequest
from pipelines.requests.pooling.pooling import PoolingRequest
from pipelines.requests.pooling.reranking import RerankRequest
from pipelines.requests.retrieval.search import SearchRequest
from pipelines.requests.speech.request import SpeechRequest, TranscriptionRequest, TranslationRequest

Body = TypeVar("Body", bound=BaseModel)

Message = Mapping[str, Any]
Messages = str | Sequence[Message]
"""A conversation as OpenAI's `messages`, or one text of the user's."""
Prompt = str | Sequence[int]
"""The text of a prompt, or its token ids."""

TEXTS_AT_ONCE = 1024
"""Texts of one request; more are several requests, which are computed side by side."""


def chat_body(
    messages: Messages, model: str | None, options: ChatOptions, stream: bool = False
) -> ChatRequest:
    given = [{"role": "user", "content": messages}] if isinstance(messages, str) else map(dict, messages)
    return _read(ChatRequest, ChatOptions, options, messages=[*given], model=model, stream=stream)


def completion_body(
    prompt: Prompt, model: str | None, options: CompletionOptions, stream: bool = False
) -> CompletionRequest:
    given = prompt if isinstance(prompt, str) else [*prompt]
    return _read(CompletionRequest, CompletionOptions, options, prompt=given, model=model, stream=stream)


def embedding_bodies(
    texts: str | Sequence[str], model: str | None, options: EmbeddingOptions
) -> list[EmbeddingRequest]:
    return [
        _read(EmbeddingRequest, EmbeddingOptions, options, input=group, model=model)
        for group in _groups(texts)
    ]


def classification_bodies(
    texts: str | Sequence[str], model: str | None, options: ClassificationOptions
) -> list[ClassificationRequest]:
    return [
        _read(ClassificationRequest, ClassificationOptions, options, input=group, model=model)
        for group in _groups(texts)
    ]


def entity_bodies(
    texts: str | Sequence[str], model: str | None, options: EntityOptions
) -> list[PoolingRequest]:
    return [
        _read(PoolingRequest, EntityOptions, options, input=group, model=model) for group in _groups(texts)
    ]


def ranking_body(
    query: str, documents: Sequence[str], model: str | None, options: RankingOptions
) -> RerankRequest:
    return _read(RerankRequest, RankingOptions, options, query=query, documents=[*documents], model=model)


def search_body(query: str | Sequence[str], model: str | None, options: SearchOptions) -> SearchRequest:
    given = query if isinstance(query, str) else [*query]
    return _read(SearchRequest, SearchOptions, options, query=given, model=model)


def speech_body(translate: bool, model: str | None, options: TranscriptionOptions) -> SpeechRequest:
    given: dict[str, Any] = dict(options)
    fields: dict[str, Any] = {"file": b"", "model": model}
    wanted = given.pop("timestamp_granularities", None)
    if wanted and translate:
        raise unknown_field("timestamp_granularities", TranslationRequest.model_fields)
    if wanted:
        fields |= {"response_format": "verbose_json", "timestamp_granularities[]": wanted}
    kind = TranslationRequest if translate else TranscriptionRequest
    return _read(kind, TranscriptionOptions, given, **fields)


def _read(kind: type[Body], known: type, options: Mapping[str, Any], **fields: Any) -> Body:
    """The checked request; `known` is the typed dictionary of the options."""
    for name in options:
        if name not in known.__annotations__:
            raise unknown_field(name, known.__annotations__)
    try:
        return kind.model_validate({**options, **fields})
    except ValidationError as error:
        raise from_validation(error) from None


def _groups(texts: str | Sequence[str]) -> list[list[str]]:
    """The texts in groups, at least one."""
    whole = [texts] if isinstance(texts, str) else [*texts]
    return [whole[start : start + TEXTS_AT_ONCE] for start in range(0, max(1, len(whole)), TEXTS_AT_ONCE)]
