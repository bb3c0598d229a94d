"""What the two generation endpoints ask alike: checked fields → `tasks.Generation`.

Every declared field is honoured; the others are looked up in `fields.py`.  Knows nothing of HTTP.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, StrictBool, StrictStr

from pipelines.errors import RequestError
from pipelines.tasks import Generation
from server.generation.field_types import (
    AllowedIds,
    BadWords,
    CacheSalt,
    LogitBias,
    MinP,
    MinTokens,
    NumChoices,
    NumTokens,
    Penalty,
    RepetitionPenalty,
    RequestId,
    Seed,
    Stops,
    Temperature,
    TokenIds,
    TopK,
    TopP,
)
from server.generation.fields import REFUSED, Refused, check_others, unknown_field

LOWEST_TEMPERATURE = 0.01
"""A temperature between 0 and this is raised to it, as in vLLM: below it logits overflow."""


class StreamOptions(BaseModel):
    """What a stream carries beside its text."""

    model_config = ConfigDict(extra="allow")
    include_usage: StrictBool | None = None
    continuous_usage_stats: StrictBool | None = None


class GenerationRequest(BaseModel):
    """The fields that chat/completions and completions share.  Null means: not set."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    refused: ClassVar[Mapping[str, Refused]] = REFUSED
    default_max_tokens: ClassVar[int | None] = None

    model: StrictStr | None = None
    n: NumChoices | None = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: NumTokens | None = None
    min_tokens: MinTokens | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    repetition_penalty: RepetitionPenalty | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: LogitBias | None = None
    allowed_token_ids: AllowedIds | None = None
    bad_words: BadWords | None = None
    stop: Stops | None = None
    stop_token_ids: TokenIds | None = None
    include_stop_str_in_output: StrictBool | None = None
    ignore_eos: StrictBool | None = None
    skip_special_tokens: StrictBool | None = None
    seed: Seed | None = None
    cache_salt: CacheSalt | None = None
    request_id: RequestId | None = None

    @property
    def num_choices(self) -> int:
        return self.n or 1

    @property
    def num_tokens(self) -> int | None:
        """The most tokens that the client wants, None when it did not say."""
        return self.max_tokens

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def continuous_usage(self) -> bool:
        """Usage on every chunk; as in vLLM it takes effect together with `include_usage` only."""
        return self.include_usage and bool(self.stream_options and self.stream_options.continuous_usage_stats)

    def alternatives(self) -> int | None:
        """How many likely tokens are wanted beside each chosen one; None: no log-probabilities at all."""
        raise NotImplementedError

    def generation(self, max_context: int) -> Generation:
        """What the pipeline is asked.  Raises RequestError for fields that do not go together."""
        self.check(max_context)
        return Generation(
            n=self.num_choices,
            sampling=self.sampling(),
            default_max_tokens=self.default_max_tokens,
            stop=self.stop or [],
            include_stop_str_in_output=bool(self.include_stop_str_in_output),
            bad_words=self.bad_words or [],
            skip_special_tokens=self.skip_special_tokens is not False,
            cache_salt=self.cache_salt or "",
            **self.own(),
        )

    def own(self) -> dict[str, Any]:
        """The fields of `Generation` that only this endpoint sets."""
        raise NotImplementedError

    def check(self, max_context: int) -> None:
        """Raise RequestError for what single fields cannot tell."""
        check_others(self.model_extra or {}, self.refused, type(self).model_fields)
        self._check_stream_options()
        if self.temperature == 0 and self.num_choices > 1:
            raise RequestError(f"n must be 1 when using greedy sampling, got {self.n}.", field="n")
        wanted = self.num_tokens
        if wanted is not None and wanted > max_context:
            raise RequestError(
                f"max_tokens={wanted} cannot be greater than max_model_len={max_context}. "
                "Please request fewer output tokens.",
                field="max_tokens" if self.max_tokens == wanted else "max_completion_tokens",
            )
        most = wanted or self.default_max_tokens or max_context
        if (self.min_tokens or 0) > most:
            raise RequestError(
                f"min_tokens must be less than or equal to max_tokens={most}, got {self.min_tokens}.",
                field="min_tokens",
            )

    def _check_stream_options(self) -> None:
        options = self.stream_options
        if options is None:
            return
        if not self.stream:
            raise RequestError(
                "Stream options can only be defined when `stream=True`.", field="stream_options"
            )
        for name, value in (options.model_extra or {}).items():
            if name == "include_obfuscation":
                if value:
                    raise RequestError(
                        "`stream_options.include_obfuscation`: streams are not padded; allowed: false",
                        field="stream_options.include_obfuscation",
                    )
            else:
                raise unknown_field(name, StreamOptions.model_fields, "stream_options.")

    def sampling(self) -> dict[str, Any]:
        """What the client set, by the names of `SamplingParams`; a seed is drawn when it names none."""
        same = (
            "min_tokens",
            "top_p",
            "min_p",
            "repetition_penalty",
            "presence_penalty",
            "frequency_penalty",
            "logit_bias",
            "allowed_token_ids",
            "stop_token_ids",
            "ignore_eos",
        )
        chosen = {name: getattr(self, name) for name in same}
        chosen["max_tokens"] = self.num_tokens
        chosen["top_k"] = None if self.top_k is None else max(self.top_k, 0)
        chosen["temperature"] = self._temperature()
        chosen["seed"] = secrets.randbits(63) if self.seed in (None, -1) else self.seed % 2**64
        chosen["logprobs"] = self.alternatives()
        return {name: value for name, value in chosen.items() if value is not None}

    def _temperature(self) -> float | None:
        if not self.temperature:
            return self.temperature
        return max(self.temperature, LOWEST_TEMPERATURE)
