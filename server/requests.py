"""Bodies of generation requests: JSON bytes → checked fields → `tasks.Generation`.

Every declared field is honoured; the others are looked up in `server/fields.py`.  Knows nothing of HTTP.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, StrictBool, StrictStr

from pipelines.errors import RequestError
from pipelines.tasks import Generation
from pipelines.values import Prompt
from server.conversation import Message, Tools, parses_calls
from server.field_types import (
    AllowedIds,
    BadWords,
    CacheSalt,
    LogitBias,
    MinP,
    MinTokens,
    NumChoices,
    NumLogprobs,
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
from server.fields import REFUSED, REFUSED_CHAT, REFUSED_COMPLETION, Refused, check_others, unknown_field
from server.prompts import read_prompts

LOWEST_TEMPERATURE = 0.01
"""A temperature between 0 and this is raised to it, as in vLLM: below it logits overflow."""
COMPLETION_MAX_TOKENS = 16
MAX_TOTAL_CHOICES = 1024
OWN_FIELDS = ("messages", "tools", "add_generation_prompt", "continue_final_message", "chat_template")
"""What `chat_template_kwargs` may not hold: these are fields of their own."""


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


class ChatRequest(GenerationRequest):
    """The body of chat/completions."""

    refused: ClassVar[Mapping[str, Refused]] = REFUSED | REFUSED_CHAT

    messages: list[Message]
    max_completion_tokens: NumTokens | None = None
    logprobs: StrictBool | None = None
    top_logprobs: NumLogprobs | None = None
    tools: Tools | None = None
    tool_choice: Any = None
    parallel_tool_calls: StrictBool | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    include_reasoning: StrictBool | None = None
    add_generation_prompt: StrictBool | None = None
    continue_final_message: StrictBool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    documents: list[dict[str, StrictStr]] | None = None

    @property
    def num_tokens(self) -> int | None:
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens

    def alternatives(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None

    @property
    def prompts_reply(self) -> bool:
        """Whether the prompt ends with the start of a new reply, or with the message to go on with."""
        if self.add_generation_prompt is None:
            return not self.continue_final_message
        return self.add_generation_prompt

    @property
    def role(self) -> str:
        """Whose message the reply is: the assistant's, or the last one's that it goes on with."""
        return "assistant" if self.prompts_reply else self.messages[-1].role

    @property
    def calls_tools(self) -> bool:
        return parses_calls(self.tool_choice, self.tools)

    def check(self, max_context: int) -> None:
        super().check(max_context)
        if not self.messages:
            raise RequestError(
                "Cannot apply chat template to an empty conversation. Provide at least one message.",
                field="messages",
            )
        if self.continue_final_message and self.add_generation_prompt:
            raise RequestError(
                "Cannot set both `continue_final_message` and `add_generation_prompt` to True.",
                field="continue_final_message",
            )
        if self.top_logprobs and not self.logprobs:
            raise RequestError(
                "when using `top_logprobs`, `logprobs` must be set to true.", field="top_logprobs"
            )
        if self.logprobs and self.include_reasoning is False:
            raise RequestError(
                "`include_reasoning` cannot be false together with `logprobs`: tokens of the reasoning are "
                "among those reported",
                field="include_reasoning",
            )
        for name in OWN_FIELDS:
            if name in (self.chat_template_kwargs or {}):
                raise RequestError(
                    f"`chat_template_kwargs.{name}` is not allowed: `{name}` is a field of the request",
                    field=f"chat_template_kwargs.{name}",
                )

    def own(self) -> dict[str, Any]:
        return {
            "messages": [message.plain(f"messages.{i}") for i, message in enumerate(self.messages)],
            "tools": [tool.model_dump(exclude_unset=True) for tool in self.tools or []],
            "parse_tools": self.calls_tools,
            "add_generation_prompt": self.prompts_reply,
            "continue_final_message": bool(self.continue_final_message),
            "template_kwargs": self._template_kwargs(),
        }

    def _template_kwargs(self) -> dict[str, Any]:
        kwargs: dict[str, Any] = {}
        if self.reasoning_effort is not None:
            kwargs["reasoning_effort"] = self.reasoning_effort
            kwargs["enable_thinking"] = self.reasoning_effort != "none"
        if self.documents is not None:
            kwargs["documents"] = self.documents
        return kwargs | (self.chat_template_kwargs or {})


class CompletionRequest(GenerationRequest):
    """The body of completions."""

    refused: ClassVar[Mapping[str, Refused]] = REFUSED | REFUSED_COMPLETION
    default_max_tokens: ClassVar[int | None] = COMPLETION_MAX_TOKENS

    prompt: Any = None
    logprobs: NumLogprobs | None = None
    add_special_tokens: StrictBool | None = None

    def alternatives(self) -> int | None:
        return self.logprobs

    def own(self) -> dict[str, Any]:
        prompts: list[Prompt] = read_prompts(self.prompt, self.add_special_tokens is not False)
        if len(prompts) * self.num_choices > MAX_TOTAL_CHOICES:
            raise RequestError(
                f"{len(prompts)} prompts with n={self.num_choices} are more than {MAX_TOTAL_CHOICES} choices",
                field="n" if len(prompts) <= MAX_TOTAL_CHOICES else "prompt",
            )
        return {"prompts": prompts}
