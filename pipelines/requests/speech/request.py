"""The fields of audio/transcriptions and audio/translations.

Every declared field is honoured; `unsupported_fields.py` lists others, and what is in neither is unknown.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field, StrictStr, model_validator

from pipelines.base.deferred_model import DeferredModel
from pipelines.base.errors import RequestError
from pipelines.requests.fields.field_types import (
    Items,
    MinP,
    NumTokens,
    Penalty,
    Priority,
    RepetitionPenalty,
    RequestId,
    Seed,
    Temperature,
    TopK,
    TopP,
    plain_error,
)
from pipelines.requests.fields.known_fields import Refused, check_fields
from pipelines.requests.generation.sampling import temperature
from pipelines.requests.speech.unsupported_fields import IGNORED, REFUSED

MAX_CANDIDATES = 128


def read_options(value: Any) -> Any:
    """`vllm_xargs`: an object as JSON text."""
    try:
        options = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError) as error:
        text = f"Failed to parse vllm_xargs. Must be valid JSON: {error} (parameter=vllm_xargs)"
        raise plain_error(text) from None
    if options is not None and not isinstance(options, dict):
        raise plain_error("vllm_xargs must be a JSON object (parameter=vllm_xargs)")
    return options


class SpeechOptions(DeferredModel):
    """vLLM's options of speech models; others are refused."""

    model_config = ConfigDict(extra="forbid")

    language_detection_only: bool | None = None
    language_candidates: Annotated[Items[StrictStr], Field(max_length=MAX_CANDIDATES)] | None = None


class SpeechRequest(DeferredModel):
    """The fields that both paths share.  An empty text means: not set."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    refused: ClassVar[Mapping[str, Refused]] = REFUSED
    ignored: ClassVar[Mapping[str, str]] = IGNORED
    translates: ClassVar[bool]

    file: bytes = Field(json_schema_extra={"format": "binary"})
    model: StrictStr | None = None
    language: StrictStr | None = None
    prompt: StrictStr | None = None
    response_format: Literal["json", "text", "srt", "verbose_json", "vtt"] = "json"
    stream: bool | None = None
    stream_include_usage: bool | None = None
    stream_continuous_usage_stats: bool | None = None
    chunking_strategy: Literal["auto"] | None = None
    long_form: Literal["parallel", "sequential"] = "parallel"
    vllm_xargs: Annotated[SpeechOptions, BeforeValidator(read_options)] | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    seed: Seed | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: RepetitionPenalty | None = None
    presence_penalty: Penalty | None = None
    max_completion_tokens: NumTokens | None = None
    priority: Priority | None = None
    request_id: RequestId | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, values: Any) -> Any:
        return {name: value for name, value in values.items() if value not in ("", [])}

    @model_validator(mode="after")
    def _check(self) -> SpeechRequest:
        """Raises RequestError."""
        if self.model_extra:
            check_fields(self.model_extra, type(self).model_fields, self.refused, self.ignored)
        if not self.stream:
            for name in ("stream_include_usage", "stream_continuous_usage_stats"):
                if getattr(self, name):
                    raise RequestError(
                        f"Stream options can only be defined when `stream=True`. (parameter={name})", name
                    )
        elif self.response_format not in ("json", "text"):
            raise RequestError(
                f"{self.response_format} format doesn't support streaming case", "response_format"
            )
        elif self.sequential:
            raise RequestError("`long_form` must be 'parallel' with `stream`", "long_form")
        elif "word" in self.granularities:
            raise RequestError("a stream has no words", "timestamp_granularities[]")
        return self

    @property
    def granularities(self) -> list[str]:
        """What the reply gives times of, where the request says so."""
        return []

    @property
    def sequential(self) -> bool:
        return self.long_form == "sequential"

    @property
    def detects_only(self) -> bool:
        return self.vllm_xargs is not None and bool(self.vllm_xargs.language_detection_only)

    @property
    def needs_segments(self) -> bool:
        return self.response_format in ("srt", "vtt", "verbose_json") or bool(self.granularities)

    def speech(self) -> dict[str, Any]:
        """The fields of `tasks.SpeechInput` that are the same for all windows."""
        options = self.vllm_xargs or SpeechOptions()
        return {
            "language": None if self.language is None else self.language.lower(),
            "candidates": options.language_candidates or [],
            "translate": self.translates,
            "previous_text": self.prompt or "",
            "timestamps": self.needs_segments or self.sequential,
        }

    def sampling(self) -> dict[str, Any]:
        """The parameters that the client set, by the names of `SamplingParams`; a seed in any case."""
        names = ("top_p", "min_p", "frequency_penalty", "repetition_penalty", "presence_penalty", "priority")
        chosen = {name: getattr(self, name) for name in names}
        chosen["top_k"] = None if self.top_k is None else max(self.top_k, 0)
        chosen["max_tokens"] = self.max_completion_tokens
        chosen["temperature"] = temperature(self.temperature)
        chosen["seed"] = secrets.randbits(63) if self.seed is None else self.seed % 2**64
        return {name: value for name, value in chosen.items() if value is not None}


class TranscriptionRequest(SpeechRequest):
    """A recording → its text, in the language that is spoken."""

    translates: ClassVar[bool] = False

    timestamp_granularities: Items[Literal["segment", "word"]] | None = Field(
        default=None, alias="timestamp_granularities[]"
    )

    @property
    def granularities(self) -> list[str]:
        return [*(self.timestamp_granularities or [])]


class TranslationRequest(SpeechRequest):
    """A recording → its text in English."""

    translates: ClassVar[bool] = True

    to_language: Literal["en"] | None = None
